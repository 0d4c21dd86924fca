#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/result.hpp"
#include "lab/training/costs/closed_model.hpp"
#include "proto/job.pb.h"
#include "proto/lab.pb.h"
#include "worker/replica.hpp"

namespace taut::lab {

struct ScalingOptions {
  pb::Job job;  // checked
  pb::LabCluster cluster;
  std::uint32_t servers = 1;
  std::vector<std::uint32_t> workers;
  std::vector<Slack> slacks;  // each with each number of workers; none: the job's
  bool checks = false;        // each is also trained for some clocks in the lab, without learning
};

/// The slacks of the options, or the job's.
[[nodiscard]] std::vector<Slack> slacks_of(const ScalingOptions& options);

/// The options' job as it is trained with so many workers under one of the options' slacks; what it
/// says of more workers is left out, and it shows no progress.
[[nodiscard]] pb::Job job_with(const ScalingOptions& options, std::uint32_t workers, Slack slack);

/// How a job does with so many workers under a bound.
struct ScalingPoint {
  std::uint32_t workers = 0;
  Slack slack;
  ClosedEstimate estimate;
  double records_per_s = 0;      // of all workers together, by the estimate
  double price_per_hour = 0;     // of the hosts that it runs on
  std::optional<double> lab_ms;  // a worker's clock, if it was trained
};

/// Plans one number of workers after the other, with the job's data and nets opened once.
class ScalingPlanner {
 public:
  /// Errors    invalid: a job that has no formula
  [[nodiscard]] static Result<ScalingPlanner> make(const ScalingOptions& options);

  /// cluster   in place of that of the options
  /// Errors    as run_training
  [[nodiscard]] Result<ScalingPoint> plan(const pb::LabCluster& cluster, std::uint32_t workers,
                                          Slack slack);
  /// Those of the options, or the job's.
  [[nodiscard]] const std::vector<Slack>& slacks() const { return slacks_; }

 private:
  explicit ScalingPlanner(const ScalingOptions& options);

  const ScalingOptions* options_;
  std::vector<Slack> slacks_;
  std::optional<worker::JobAssets> assets_;
};

/// Errors    as run_training
[[nodiscard]] Result<std::vector<ScalingPoint>> plan_scaling(const ScalingOptions& options);

}  // namespace taut::lab
