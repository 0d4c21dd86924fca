#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "lab/network.hpp"
#include "lab/random.hpp"
#include "lab/training/fair_links.hpp"
#include "lab/training/host_cores.hpp"
#include "proto/lab.pb.h"

namespace taut::lab {

/// One direction of a link.
struct Pipe {
  std::string name;  // "gpu3 out"; of a rack with the same name as a host: "rack gpu3 out"
  double us_per_byte = 0;
  double latency_us = 0;
  double jitter_us = 0;
  double loss = 0;    // of packets
  TimePoint free_at;  // of whole messages: when everything that has reached it has passed
  std::uint64_t bytes = 0;
  std::uint64_t messages = 0;
  double busy_us = 0;
};

/// The hosts of a cluster, which of them each process runs on, and the links between them. A
/// message passes its sender's card, the links of the racks if they differ, and its receiver's
/// card; and in an island the links of the workers' devices first and last. Each link forwards it
/// while it still arrives. Connections share a link equally, or whole messages pass it one after
/// another, in the order in which their first bytes reach it, as the cluster's file says.
class Topology final : public sim::Journey {
 public:
  /// How processes are numbered: the coordinator and the user, then servers, then workers.
  static constexpr sim::NodeId kCoordinator = 0;
  static constexpr sim::NodeId kUser = 1;

  /// A message on a pipe from `begin` to `end`, of whose time it took `busy_us`.
  struct Passage {
    std::size_t pipe = 0;
    sim::NodeId from = 0;
    sim::NodeId to = 0;
    TimePoint begin;
    TimePoint end;
    double busy_us = 0;
  };
  /// Called for each message on each pipe that it passes; may be empty.
  using OnPass = std::function<void(const Passage& passage)>;
  void on_pass(OnPass notify) { notify_ = std::move(notify); }

  /// Errors    invalid: more processes than the cluster's hosts have places for
  [[nodiscard]] static Result<std::unique_ptr<Topology>> make(const pb::LabCluster& cluster,
                                                              std::uint32_t servers,
                                                              std::uint32_t workers,
                                                              std::uint64_t seed);

  [[nodiscard]] sim::NodeId server_node(std::uint32_t server) const { return 2 + server; }
  [[nodiscard]] sim::NodeId worker_node(std::uint32_t worker) const {
    return 2 + servers_ + worker;
  }
  std::optional<TimePoint> depart(const Trip& trip, TimePoint now) override;
  [[nodiscard]] TimePoint next() const override;
  void advance(TimePoint now) override;
  std::vector<Arrival> take_known() override;
  /// The arrival of a message that is sent now and is queued on all links of its way at once,
  /// behind earlier ones: for estimates without a network, whose messages depart().
  TimePoint arrival(sim::NodeId from, sim::NodeId to, std::uint64_t bytes, TimePoint now);

  /// Messages of processes, and their bytes.
  struct Traffic {
    void count_in(std::uint64_t bytes) {
      ++messages_in;
      bytes_in += bytes;
    }
    void count_out(std::uint64_t bytes) {
      ++messages_out;
      bytes_out += bytes;
    }
    std::uint64_t messages_in = 0;
    std::uint64_t bytes_in = 0;
    std::uint64_t messages_out = 0;
    std::uint64_t bytes_out = 0;
  };
  [[nodiscard]] const Traffic& coordinator() const { return coordinator_; }
  /// What all servers get from workers and send to them.
  [[nodiscard]] const Traffic& servers() const { return servers_of_workers_; }

  /// An accelerator of a host.
  struct Device {
    std::size_t host = 0;
    bool has_link = false;
    std::size_t out = 0;  // pipes, if it has a link
    std::size_t in = 0;
  };
  struct Host {
    std::string name;
    std::string kind;  // the name in the file, of all hosts of this kind
    std::uint32_t cores = 1;
    double speed = 1;
    double price_per_hour = 0;
    std::size_t out = 0;  // pipes
    std::size_t in = 0;
    std::size_t loopback = 0;
    std::size_t rack = 0;  // one past its number; 0: none
    std::size_t first_device = 0;
    std::size_t devices = 0;
  };
  [[nodiscard]] const std::vector<Host>& hosts() const { return hosts_; }
  [[nodiscard]] std::size_t host_of(sim::NodeId node) const { return host_of_[node]; }
  /// The price of all hosts that a process runs on, in the cluster file's currency.
  [[nodiscard]] double price_per_hour() const;
  [[nodiscard]] const std::vector<Device>& devices() const { return devices_; }
  /// Where a process computes; nullopt if on its host's cores.
  [[nodiscard]] std::optional<std::size_t> device_of(sim::NodeId node) const {
    return device_of_[node];
  }
  [[nodiscard]] const std::vector<Pipe>& pipes() const { return pipes_; }

 private:
  struct Rack {
    std::size_t out = 0;  // pipes
    std::size_t in = 0;
  };
  /// A message between two links: when its first and its last byte reach the next one.
  struct Front {
    double head_us = 0;
    double tail_us = 0;
  };
  /// A message on its way, where whole messages pass links.
  struct Leg {
    TimePoint at{};  // when it reaches the next link
    std::uint64_t order = 0;
    std::uint32_t flight = 0;
    std::uint32_t links = 0;  // that it has passed
    Front front{};
    friend bool operator<(const Leg& a, const Leg& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  Topology(std::uint32_t servers, std::uint64_t seed) : servers_(servers), random_(seed) {}
  void add_hosts(const pb::LabCluster& cluster);
  void add_racks(const pb::LabCluster& cluster);
  void add_devices(const pb::LabHost& kind, const pb::LabCluster& cluster);
  [[nodiscard]] Result<void> place(const pb::LabCluster& cluster, std::uint32_t servers,
                                   std::uint32_t workers);
  void give_devices(std::uint32_t workers);
  void share_fairly();
  [[nodiscard]] FairLinks::Way way_of(sim::NodeId from, sim::NodeId to) const;
  [[nodiscard]] Front pass(std::uint32_t pipe, const Trip& trip, const Front& front);
  void continue_trip(Leg leg);
  /// How much later a message arrives because packets were lost on any link.
  [[nodiscard]] double losses_us(const FairLinks::Way& way, std::uint64_t bytes);
  /// What latency, jitter and losses add to a message's time on its links.
  [[nodiscard]] double later_us(const FairLinks::Way& way, std::uint64_t bytes);
  /// The device of a process, if it has a link to its host.
  [[nodiscard]] const Device* port_of(sim::NodeId node) const;
  /// How much later a message arrives because some of its packets were lost on a pipe.
  /// path_us  the latency of its whole way
  [[nodiscard]] double loss_us(const Pipe& pipe, std::uint64_t bytes, double path_us);
  [[nodiscard]] double draw();
  void count(const Trip& trip);
  [[nodiscard]] std::size_t add_pipe(const std::string& name, const pb::LabLink& link);

  const std::uint32_t servers_;
  sim::Random random_;
  std::vector<Host> hosts_;
  std::vector<Device> devices_;
  std::vector<Rack> racks_;
  std::vector<Pipe> pipes_;
  std::vector<std::size_t> host_of_;                   // by node
  std::vector<std::optional<std::size_t>> device_of_;  // by node
  std::optional<FairLinks> fair_;                      // nullopt: whole messages pass links
  std::vector<Trip> trips_;                            // by flight
  std::vector<Leg> legs_;                              // a heap, where whole messages pass links
  std::uint64_t order_ = 0;
  std::vector<Arrival> known_;
  bool keep_order_ = false;  // a link has jitter
  // Of the newest message of each connection, by the links that it has passed: when its first byte
  // reaches the next one.
  std::vector<std::array<double, FairLinks::Way::kMax>> newest_us_;
  OnPass notify_;
  Traffic coordinator_;
  Traffic servers_of_workers_;
};

}  // namespace taut::lab
