#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/math/update_rule.hpp"
#include "common/result.hpp"
#include "common/ssp/membership.hpp"
#include "common/types.hpp"
#include "proto/control.pb.h"

namespace taut::server {

/// Everything a shard must know of a job, settled from what the coordinator sent. Never changes: a
/// new revision is a new view.
struct JobView {
  JobId job;
  std::uint64_t revision = 0;
  std::string hash;
  std::uint64_t seed = 0;
  math::UpdateRule rule;
  bool sum = false;  // add updates up instead of dividing by the members
  Membership membership;
  Slack slack;
  Clock hold_from = Clock::never();
  std::vector<ShardId> shards;
  bool finished = false;

  /// The slack of a read at `clock`. Where the update before it is applied as an aggregate, only
  /// slack 0 shows the reader its own writes.
  [[nodiscard]] Slack slack_at(Clock clock) const {
    const bool aggregated =
        clock > Clock(0) && membership.mode_at(clock - 1) == ApplyMode::kAggregate;
    return aggregated ? Slack(0) : slack;
  }
};

/// Errors    invalid: a solver or a state that cannot work
[[nodiscard]] Result<std::shared_ptr<const JobView>> make_job_view(const pb::ServerJob& job);

}  // namespace taut::server
