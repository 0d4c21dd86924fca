#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/time.hpp"
#include "lab/random.hpp"
#include "proto/control.pb.h"
#include "proto/data_message.hpp"

namespace taut::sim {

/// A process of the simulated cluster.
using NodeId = std::uint32_t;
/// One end of many connections, owned by a node.
using SocketId = std::uint32_t;
/// A message, or its frames as an Endpoint carries them.
using Body = std::variant<DataMessage, pb::ControlMessage, Message>;

/// The faults of messages, drawn for each one separately.
struct LinkFaults {
  double drop = 0;       // probability
  double duplicate = 0;  // probability of a second copy with its own delay
  Duration delay_min{50};
  Duration delay_max{50};
  bool reorder = false;  // a shorter delay may overtake; otherwise a connection keeps its order
};

struct Delivery {
  SocketId to = 0;
  PeerId from;
  Body body;
};

/// A model of how long messages are on their way.
class Journey {
 public:
  /// A message that departs.
  struct Trip {
    std::uint32_t flight = 0;      // unique among the messages on their way
    std::uint32_t connection = 0;  // one direction of it, whose messages keep their order
    NodeId from = 0;
    NodeId to = 0;
    std::uint64_t bytes = 0;
  };
  struct Arrival {
    std::uint32_t flight = 0;
    TimePoint at;  // not before it is known
  };
  virtual ~Journey() = default;
  /// When a message that is sent now arrives; nullopt if take_known() will return it later.
  /// Called in the order in which messages are sent.
  virtual std::optional<TimePoint> depart(const Trip& trip, TimePoint now) = 0;
  /// When advance() is due; never if nothing is due before the next message.
  [[nodiscard]] virtual TimePoint next() const { return TimePoint::never(); }
  virtual void advance(TimePoint /*now*/) {}
  /// The arrivals that have become known, in order.
  virtual std::vector<Arrival> take_known() { return {}; }
};

/// A network in virtual time whose faults are drawn from a seed. It has the semantics of the
/// daemons' transport (endpoint.hpp): a connection is made again on its own, and is a new peer to
/// the listener each time. Messages stay typed for speed; a share of them goes through real frames
/// and back.
class Network {
 public:
  /// framed  the share of messages that is encoded and decoded as in docs/WIRE.md
  Network(std::uint64_t seed, LinkFaults faults, double framed);
  /// Overload for a network without faults.
  /// journey  outlives the network
  explicit Network(Journey& journey);

  SocketId open(NodeId node);
  void listen(SocketId socket, const std::string& address);
  PeerId connect(SocketId socket, const std::string& address);
  void disconnect(PeerId peer);
  /// The socket's process ended or closed it: messages in flight to it are lost.
  void close(SocketId socket);
  /// The node's process ended: closes all of its sockets.
  void end(NodeId node);
  void send(SocketId from, PeerId to, Body body);

  /// Peers whose connections have closed since the last call, as their listeners know them.
  [[nodiscard]] std::vector<PeerId> take_closed() { return std::exchange(closed_, {}); }

  /// Closes every connection of a node; each is made again by the next message.
  void break_connections(NodeId node);
  /// Drops everything from `a` to `b` while it is blocked.
  void block(NodeId a, NodeId b, bool blocked);
  [[nodiscard]] bool is_blocked(NodeId a, NodeId b) const { return blocked_.contains({a, b}); }
  void set_faults(LinkFaults faults) { faults_ = faults; }

  [[nodiscard]] TimePoint now() const { return now_; }
  /// When the next message arrives or its journey must advance; never if nothing is on its way.
  [[nodiscard]] TimePoint next_due() const { return std::min(next_arrival(), next_change()); }
  void advance(TimePoint to) { now_ = to; }
  /// Takes the next arrival off the network and moves time to it; nullopt if the message was lost,
  /// or its journey takes longer.
  /// REQUIRES: something is on its way.
  std::optional<Delivery> take_next();
  [[nodiscard]] std::uint64_t delivered() const { return delivered_; }
  [[nodiscard]] NodeId node_of(SocketId socket) const { return sockets_[socket].node; }
  [[nodiscard]] bool is_open(SocketId socket) const { return sockets_[socket].open; }

 private:
  struct Socket {
    NodeId node = 0;
    bool open = true;
    std::vector<std::uint32_t> links{};      // that it has connected
    std::vector<std::uint32_t> addresses{};  // that it listens on
  };
  struct Link {
    SocketId connecting = 0;
    std::uint32_t address = 0;
    bool alive = true;
    std::uint32_t generation = 0;  // grows when the connection breaks
    PeerId at_connecting;
    std::optional<PeerId> at_listening;
    TimePoint last[2];  // arrival of the newest message, by direction
  };
  struct Peer {
    std::uint32_t link = 0;
    bool leads_to_listener = false;
  };
  struct Flight {
    std::uint32_t link = 0;
    std::uint32_t generation = 0;
    bool to_listener = false;
    Body body;
  };
  struct Due {
    TimePoint at;
    std::uint64_t order;
    std::uint32_t flight;
    friend bool operator<(const Due& a, const Due& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  PeerId new_peer(std::uint32_t link, bool leads_to_listener);
  std::uint32_t address_number(const std::string& address);
  void break_link(Link& link);
  [[nodiscard]] TimePoint next_arrival() const {
    return due_.empty() ? TimePoint::never() : due_.front().at;
  }
  [[nodiscard]] TimePoint next_change() const {
    return journey_ == nullptr ? TimePoint::never() : journey_->next();
  }
  void schedule(std::uint32_t link, bool to_listener, Body body);
  [[nodiscard]] std::uint32_t add_flight(Flight flight);
  [[nodiscard]] std::optional<TimePoint> depart(std::uint32_t flight);
  void expect_known();
  /// Schedules a flight's arrival.
  void expect(std::uint32_t flight, TimePoint at);

  Random random_;
  LinkFaults faults_;
  const double framed_;
  TimePoint now_;
  std::uint64_t order_ = 0;
  std::uint64_t delivered_ = 0;
  std::vector<PeerId> closed_;
  std::vector<Socket> sockets_;
  std::vector<Link> links_;
  std::vector<Peer> peers_ = {Peer{}};  // PeerId 0 is no process
  std::map<std::string, std::uint32_t> addresses_;
  std::vector<std::optional<SocketId>> bound_;  // by address number
  std::vector<std::vector<std::uint32_t>> to_;  // links, by address number
  std::set<std::pair<NodeId, NodeId>> blocked_;
  Journey* journey_ = nullptr;  // nullptr: delays are those of faults_
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_;
  std::vector<Due> due_;  // a heap
};

}  // namespace taut::sim
