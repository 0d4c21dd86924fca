#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/result.hpp"
#include "lab/training/costs/closed_model.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"

namespace taut::lab {

struct ScalingOptions {
  pb::Job job;  // checked
  pb::LabCluster cluster;
  std::uint32_t servers = 1;
  std::vector<std::uint32_t> workers;
  std::vector<Slack> slacks;  // each with each number of workers; none: the job's
  bool checks = false;        // each is also trained for some clocks in the lab, without learning
};

/// How a job does with so many workers under a bound.
struct ScalingPoint {
  std::uint32_t workers = 0;
  Slack slack;
  ClosedEstimate estimate;
  double records_per_s = 0;      // of all workers together, by the estimate
  double price_per_hour = 0;     // of the hosts that it runs on
  std::optional<double> lab_ms;  // a worker's clock, if it was trained
};

/// Errors    as run_training
[[nodiscard]] Result<std::vector<ScalingPoint>> plan_scaling(const ScalingOptions& options);

}  // namespace taut::lab
