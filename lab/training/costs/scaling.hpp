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
  std::vector<Slack> slacks;  // each with each number of workers; empty: the job's
  bool checks = false;        // each is also trained for some clocks in the lab, without learning
  Bytes memory{0};            // that this process may take for trainings in the lab; 0: no limit
};

/// The slacks of the options, or the job's.
[[nodiscard]] std::vector<Slack> slacks_of(const ScalingOptions& options);

/// The options' job as it is trained with `workers` workers under `slack`; its settings for more
/// workers are left out, and it shows no progress.
[[nodiscard]] pb::Job job_with(const ScalingOptions& options, std::uint32_t workers, Slack slack);

/// How a job performs with `workers` workers under a bound.
struct ScalingPoint {
  std::uint32_t workers = 0;
  Slack slack;
  ClosedEstimate estimate;
  double records_per_s = 0;      // of all workers together, by the estimate
  double price_per_hour = 0;     // of the hosts that it runs on
  std::optional<double> lab_ms;  // a worker's clock, if it was trained
};

/// Plans one number of workers after another, with the job's data and nets opened once.
class ScalingPlanner {
 public:
  /// Errors    invalid: the job has no formula
  [[nodiscard]] static Result<ScalingPlanner> make(const ScalingOptions& options);

  /// cluster   in place of the options' cluster
  /// Errors    as run_training()
  [[nodiscard]] Result<ScalingPoint> plan(const pb::LabCluster& cluster, std::uint32_t workers,
                                          Slack slack);
  /// The slacks of the options, or the job's.
  [[nodiscard]] const std::vector<Slack>& slacks() const { return slacks_; }

 private:
  explicit ScalingPlanner(const ScalingOptions& options);

  const ScalingOptions* options_;
  std::vector<Slack> slacks_;
  std::optional<worker::JobAssets> assets_;
};

/// Errors    as run_training()
[[nodiscard]] Result<std::vector<ScalingPoint>> plan_scaling(const ScalingOptions& options);

}  // namespace taut::lab
