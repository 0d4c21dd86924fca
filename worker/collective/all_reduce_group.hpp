#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/net/shared_arena.hpp"
#include "common/net/shared_link.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "common/time_source.hpp"
#include "common/types.hpp"
#include "proto/collective/peer_message.hpp"
#include "worker/collective/algorithms.hpp"
#include "worker/collective/all_reduce.hpp"

namespace taut::collective {

struct GroupMember {
  std::string name;        // of the process; with keys, its key's
  std::string address;     // "host:port", where its endpoint listens
  std::string key{};       // its public key; empty: the cluster's, or none
  std::uint32_t host = 0;  // equal numbers are the same machine, for kHierarchical
};

struct GroupOptions {
  static constexpr Bytes kMaxWindow{32UL << 20U};
  static constexpr Bytes kMaxMessage{1UL << 20U};
  /// Of the text that ranks compare before they sum, as in the schema: the hosts of 1000 ranks.
  static constexpr Bytes kMaxAgreement{8192};

  /// Identifies this group among all that its processes ever join; equal at every rank. Messages of
  /// another group are dropped.
  std::uint64_t group = 0;
  Rank rank;
  std::vector<GroupMember> members;  // [ranks], the same at every rank
  Algorithm algorithm = Algorithm::kRing;
  /// Transfers of begin_exchange(), in addition to those of sums: they name the ranks that this one
  /// sends to and receives from. Empty if there are none.
  Schedule exchange{};
  std::string exchange_name{};      // the same at every rank
  std::uint64_t pair_elements = 0;  // that begin_pair() sends and receives; 0 if there is none
  std::function<Buffer(std::size_t bytes)> acquire{};  // memory for what others send in pairs
  Bytes message = kMaxMessage;                         // of values, maximum; the same at every rank
  /// Limit on values in frames that are under way to one rank, or four messages if that is more:
  /// what a slow rank has not read takes no more of its memory. A rank's endpoint closes the
  /// connection of a rank that sends more than kMaxWindow ahead.
  Bytes window = kMaxWindow;
  /// A wait fails when nothing that it needs has arrived for this long.
  Duration silence_limit = std::chrono::seconds(30);
  /// For values that are summed with processes of this machine; nullptr: they travel as bytes.
  std::shared_ptr<SharedArena> shared_memory;
  /// Limit on kept chunks of sums that were not begun here; beyond it the group fails.
  Bytes early = Bytes(1UL << 30U);
  /// Called while it waits: true ends the group with the error closed. May be empty.
  std::function<bool()> is_over{};
  TimeSource* time = &machine_time();  // outlives the group
};

/// One process's place in a group that sums values without a server, over an endpoint that listens
/// at its member's address. Each rank connects to those that it sends to.
///
/// A rank may end its part before others have received what it sent last: the endpoint must stay
/// open until they have.
///
/// What breaks a sum ends the group: a rank that is silent, whose connection broke or that sums
/// something else. Every later call returns the same error, and a new group is needed.
/// Thread    one, that of the endpoint
class AllReduceGroup {
 public:
  /// Counts the sums of a group, in the order in which they are begun.
  using SumId = std::uint64_t;

  AllReduceGroup(Endpoint& endpoint, GroupOptions options);

  /// Waits until every rank that this one sends to has accepted it, and it has accepted those that
  /// send to it.
  /// Errors    timeout: names those that have not answered; unavailable: one does not accept this
  ///           process's key; mismatch: one is set up differently; invalid: an address
  [[nodiscard]] Result<void> connect(Duration limit);

  /// The ranks that this one sends to and whose processes connect() has not reached, for people;
  /// empty if there are none. A process that computes is reached, but does not answer.
  [[nodiscard]] std::string unreached() const;

  /// Begins to sum values over the group: they become the sum. Every rank begins its sums in the
  /// same order, and several may be under way. Values are sent without a copy, whether they are in
  /// memory that is shared with processes of this machine or not; nothing may write to them until
  /// wait_until_free().
  [[nodiscard]] Result<SumId> begin(const Buffer& values);

  /// Begins to exchange `total` elements with the ranks of GroupOptions::exchange; it counts as a
  /// sum.
  /// values    `total` elements, and room for those that are received
  [[nodiscard]] Result<SumId> begin_exchange(const Buffer& values, const Schedule& schedule,
                                             std::uint64_t total);

  /// Begins an exchange of two, which is not counted with the sums: sends values to a rank, which
  /// answers with its own; wait() waits for the answer. One at a time.
  /// values    GroupOptions::pair_elements of them, and as much room for the answer
  [[nodiscard]] Result<SumId> begin_pair(Rank with, const Buffer& values);

  /// An exchange that another rank has begun, and of which it awaits the answer.
  struct Request {
    Rank from;
    SumId pair = 0;
    Buffer values;
  };
  /// The next request of which all values have arrived; nullopt if there is none.
  [[nodiscard]] std::optional<Request> take_request();
  /// Answers a request, once. Nothing may change the values until they are free.
  void answer(const Request& request, const Buffer& values);

  /// Waits until the values of a sum may be read.
  /// Errors    timeout: names what is missing, and the rank that everything waits for
  [[nodiscard]] Result<void> wait(SumId sum);

  /// When a chunk of a sum last arrived; TimePoint() if none has.
  [[nodiscard]] TimePoint heard() const { return heard_; }

  /// Disconnects from the ranks that it sends to: what they have not received is dropped.
  void disconnect();

  /// Waits until no other rank reads summed values, so that they may be written.
  [[nodiscard]] Result<void> wait_until_free(const Buffer& values);

  /// begin(), wait() and wait_until_free().
  [[nodiscard]] Result<void> all_reduce(const Buffer& values);

  /// Takes what has arrived and sends what now has room, without waiting. Other ranks wait for this
  /// one's sums until it calls this or waits itself.
  [[nodiscard]] Result<void> poll();

  /// Ranks that read this one's values in shared memory instead of receiving them.
  [[nodiscard]] std::size_t shares_memory_with() const;

  struct Counts {
    std::uint64_t messages = 0;  // chunks that were sent
    std::uint64_t bytes = 0;     // of values in them
  };
  [[nodiscard]] const Counts& sent() const { return sent_; }

 private:
  /// A rank that this one sends to.
  struct Receiver {
    PeerId peer;
    bool has_accepted = false;
    std::unique_ptr<SharedLink> link;  // nullptr: nothing is shared
    std::deque<Message> queue{};       // of chunks for which the window has no room
    std::uint64_t sent = 0;            // bytes of values in frames
    std::uint64_t taken = 0;           // of these, as the rank reported
  };
  /// A rank that sends to this one.
  struct Sender {
    PeerId peer;
    std::unique_ptr<SharedLink> link;
    bool has_sent = false;       // chunks
    std::uint64_t taken = 0;     // bytes of values in frames
    std::uint64_t notified = 0;  // of these, reported to the rank
  };
  struct Waiting {
    Rank rank;        // that the sender waits for
    TimePoint since;  // when it reported that
  };

  [[nodiscard]] RankPlace place() const;
  [[nodiscard]] std::string name_of(Rank rank) const;
  [[nodiscard]] std::string names_of(const std::set<Rank>& ranks) const;
  [[nodiscard]] std::string agreement() const;
  void greet(Rank rank);
  void send(Rank to, const PeerMessage& message);
  bool send_chunk(Receiver& receiver, const Message& frames);
  void tell_taken(Sender& sender);
  void send(SumId sum, std::vector<ChunkTo> chunks);
  [[nodiscard]] Schedule links() const;
  void flush();
  [[nodiscard]] Result<void> step(Duration wait);
  [[nodiscard]] Result<void> wait_for_more(SumId sum);
  [[nodiscard]] Result<void> receive(const Incoming& incoming);
  [[nodiscard]] Result<void> receive_reply(Rank from, const PeerMessage& message);
  [[nodiscard]] Result<void> receive_hello(const Incoming& incoming, Rank from,
                                           const pb::PeerHello& hello);
  [[nodiscard]] Result<void> receive_chunk(const Incoming& incoming, Rank from,
                                           const SumChunk& chunk);
  [[nodiscard]] Result<void> apply(SumId sum, Rank from, const Chunk& chunk);
  [[nodiscard]] static bool is_pair(SumId sum);
  [[nodiscard]] Result<void> receive_pair(SumId pair, Rank from, const Chunk& chunk);
  [[nodiscard]] Result<void> fail(Error error);
  [[nodiscard]] bool is_from(const Incoming& incoming, Rank rank) const;
  void drop(const std::string& why);
  [[nodiscard]] std::optional<Error> refusal() const;
  [[nodiscard]] Error silence_of(SumId sum, const AllReduce::Missing& missing) const;
  [[nodiscard]] Rank blamed(Rank missing, TimePoint now) const;

  Endpoint& endpoint_;
  const GroupOptions options_;
  const std::uint64_t chunk_;   // elements
  const std::uint64_t window_;  // bytes
  std::map<Rank, Receiver> receivers_;
  std::map<PeerId, Rank> rank_of_;
  std::map<Rank, Sender> senders_;
  std::map<SumId, AllReduce> sums_;
  SumId next_ = 0;
  struct Early {
    Rank from;
    Chunk chunk;
  };
  std::map<SumId, std::vector<Early>> early_;
  std::uint64_t early_bytes_ = 0;
  std::uint64_t pairs_ = 0;            // that this rank has begun
  std::map<Rank, Request> requests_;   // of other ranks, complete or not
  std::map<Rank, SumId> newest_pair_;  // of the requests of a rank
  std::map<Rank, Waiting> waiting_;
  TimePoint said_so_;  // when this rank last reported what it waits for
  Counts sent_;
  TimePoint heard_;
  std::uint64_t dropped_ = 0;  // messages
  std::optional<Error> failed_;
};

}  // namespace taut::collective
