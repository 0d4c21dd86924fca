#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/types.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// The options that override a job file; absent ones leave it unchanged.
struct JobOptions {
  std::optional<pb::Consistency::Mode> mode;
  std::optional<Slack> slack;  // 0: BSP; unbounded: ASYNC
  std::optional<std::uint32_t> workers;
  std::optional<std::int32_t> max_iter;
  std::optional<std::uint64_t> seed;
  std::vector<pb::Straggler> stragglers;  // in addition to the job's
  std::optional<double> clock_time_ms;
  std::vector<std::string> weights;  // files to start from, in place of the job's
  std::string data;                  // folder
  std::string resume;                // folder of a checkpoint, or of several
};

/// Overrides a job with the options, leaving paths as they are.
void put_over(const JobOptions& options, pb::Job& job);

/// "async", or a number of clocks. nullopt if it is neither.
[[nodiscard]] std::optional<Slack> parse_slack(const std::string& text);

}  // namespace taut::cli
