#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lab/node.hpp"
#include "lab/training/training_user.hpp"
#include "lab/training/world.hpp"

namespace taut::lab {

struct ProcessOptions {
  pb::Job job;
  std::uint32_t servers = 1;
  std::uint32_t shards = 1;  // of each server
  ControlTimings timings;
  CoordinatorOptions coordinator;
  std::optional<pb::ResumePoint> resume;  // the checkpoint that the job names; nullopt: none
};

/// The processes of a training: the coordinator and the user, servers, workers. Each acts when it
/// is due and when a message arrives; hosts may go away with their processes and return.
class Processes {
 public:
  /// world  outlives the processes, and is complete except for them
  Processes(World& world, ProcessOptions options);

  /// Starts all of them.
  void start();
  void deliver(sim::Delivery delivery);
  void step(sim::NodeId number);
  [[nodiscard]] const TrainingUser& user() const { return *user_; }
  /// TrainingServer::shard_bytes() of the servers that have not gone away.
  [[nodiscard]] std::uint64_t shard_bytes() const;

  /// The servers and workers that run on a host, or would if it had not gone away.
  [[nodiscard]] std::vector<sim::NodeId> on_host(std::size_t host) const;
  /// The host's processes begin to hand their work over.
  void give_notice(std::size_t host);
  /// The host's processes end in the middle of their work.
  void stop(std::size_t host);
  /// The host is back, with new processes.
  void start_again(std::size_t host);

 private:
  struct Place {
    std::unique_ptr<sim::Node> node;         // nullptr: its host has gone away
    bool has_ended = false;                  // on its own
    TimePoint planned = TimePoint::never();  // its entry in the agenda
    std::uint64_t starts = 0;
  };
  void enter(sim::NodeId number);
  void end(sim::NodeId number);
  void plan(sim::NodeId number);
  [[nodiscard]] sim::NodeId first_worker() const { return world_.topology->worker_node(0); }

  World& world_;
  const ProcessOptions options_;
  TrainingUser* user_ = nullptr;
  std::vector<Place> places_;  // by node
};

}  // namespace taut::lab
