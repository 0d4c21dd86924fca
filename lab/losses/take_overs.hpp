#pragma once

#include <cstdint>

#include "proto/coordinator_state.pb.h"

namespace taut::sim {

/// Counts a job's take-overs, and what was under way when a server was lost and so was withdrawn.
class TakeOvers {
 public:
  struct Counts {
    std::uint64_t all = 0;
    std::uint64_t joins = 0;         // while a worker's join was being prepared
    std::uint64_t mode_changes = 0;  // while a change of mode or slack was
    std::uint64_t checkpoints = 0;   // while a checkpoint was ordered and not complete
  };

  /// The job as it is stored after a step of the coordinator. REQUIRES: after each of its steps.
  void look(const pb::StoredJob& job);
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  // As of the previous step.
  std::uint64_t terms_ = 0;  // of all shards
  std::int64_t lost_ = 0;    // servers
  pb::EpochChange::Kind prepares_ = pb::EpochChange::NONE;
  bool has_checkpoint_ = false;
  Counts counts_;
};

}  // namespace taut::sim
