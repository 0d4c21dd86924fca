#include "lab/training/costs/scaling.hpp"

#include <algorithm>
#include <utility>

#include "lab/training/training_run.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/settle_compression.hpp"
#include "worker/replica.hpp"

namespace taut::lab {
namespace {

constexpr double kMsPerS = 1e3;

Slack slack_of(const pb::Job& job) {
  switch (job.consistency().mode()) {
    case pb::Consistency::ASYNC:
      return Slack::unbounded();
    case pb::Consistency::BSP:
      return Slack(0);
    default:
      return Slack(job.consistency().slack());
  }
}

void set_slack(Slack slack, pb::Job& job) {
  pb::Consistency& consistency = *job.mutable_consistency();
  consistency.clear_slack();
  consistency.clear_dynamic_slack();
  if (slack.is_unbounded()) {
    consistency.set_mode(pb::Consistency::ASYNC);
  } else if (slack == Slack(0)) {
    consistency.set_mode(pb::Consistency::BSP);
  } else {
    consistency.set_mode(pb::Consistency::SSP);
    consistency.set_slack(static_cast<std::uint32_t>(slack.clocks()));
  }
}

/// Sets the number of workers, and limits the job's settings for more of them to it.
void set_workers(std::uint32_t workers, pb::Job& job) {
  job.set_workers(workers);
  if (job.min_workers() > workers) job.set_min_workers(workers);
  const auto is_beyond = [workers](std::uint32_t worker) { return worker >= workers; };
  for (int i = job.straggler_size() - 1; i >= 0; --i) {
    auto& named = *job.mutable_straggler(i)->mutable_worker();
    if (named.empty()) continue;
    named.erase(std::remove_if(named.begin(), named.end(), is_beyond), named.end());
    // A straggler that names no worker would slow all of them.
    if (named.empty()) job.mutable_straggler()->DeleteSubrange(i, 1);
  }
}

/// A worker's clock in the lab, in milliseconds, without how a training starts and ends.
Result<double> clock_in_lab(const ScalingOptions& options, const pb::LabCluster& cluster,
                            std::uint32_t workers, Slack slack) {
  // Of few workers many clocks, whose draws differ.
  constexpr std::uint32_t kDraws = 3200;
  const auto clocks = static_cast<int>(std::clamp(kDraws / workers, 40U, 400U));
  TrainingOptions training;
  training.job = job_with(options, workers, slack);
  training.job.mutable_solver_param()->set_max_iter(clocks);
  training.cluster = cluster;
  training.servers = options.servers;
  training.seed = options.job.seed();
  training.learns = false;
  training.records.set_metrics(false);
  training.memory = options.memory;
  TAUT_TRY(const TrainingOutcome outcome, run_training(training));
  if (outcome.steady_clocks_per_s <= 0) return invalid("the lab: " + outcome.job.message());
  return kMsPerS / outcome.steady_clocks_per_s;
}

}  // namespace

std::vector<Slack> slacks_of(const ScalingOptions& options) {
  return options.slacks.empty() ? std::vector<Slack>{slack_of(options.job)} : options.slacks;
}

pb::Job job_with(const ScalingOptions& options, std::uint32_t workers, Slack slack) {
  pb::Job job = options.job;
  if (!options.slacks.empty()) set_slack(slack, job);
  set_workers(workers, job);
  job.mutable_solver_param()->clear_display();
  return job;
}

ScalingPlanner::ScalingPlanner(const ScalingOptions& options)
    : options_(&options), slacks_(slacks_of(options)) {}

Result<ScalingPlanner> ScalingPlanner::make(const ScalingOptions& options) {
  if (exchanges_at_workers(options.job) && !options.slacks.empty()) {
    return invalid("--slack: the job's workers exchange among themselves, without slack; omit it");
  }
  if (chooses_compression(options.job)) {
    return invalid(
        "compression: AUTO is chosen from what workers measure of machines and links; name a "
        "scheme");
  }
  return ScalingPlanner(options);
}

Result<ScalingPoint> ScalingPlanner::plan(const pb::LabCluster& cluster, std::uint32_t workers,
                                          Slack slack) {
  const pb::Job& given = options_->job;
  // Workers divide a batch only with global_batch.
  if (!assets_ || given.global_batch()) {
    pb::Job job = given;
    job.set_workers(workers);
    TAUT_TRY(assets_, worker::JobAssets::open(job, workers));
  }
  const std::int64_t batch = assets_->train_batch();
  const auto records = static_cast<double>(batch * given.solver_param().iter_size());
  TAUT_TRY(const auto topology, Topology::make(cluster, options_->servers, workers, given.seed()));
  ScalingPoint point;
  point.workers = workers;
  point.slack = slack;
  point.price_per_hour = topology->price_per_hour();
  TAUT_TRY(point.estimate, closed_estimate(cluster, *topology, assets_->train_graph(), batch,
                                           options_->servers, workers, slack, given));
  point.records_per_s = kMsPerS * workers * records / point.estimate.clock_ms;
  if (options_->checks) {
    TAUT_TRY(point.lab_ms, clock_in_lab(*options_, cluster, workers, slack));
  }
  return point;
}

Result<std::vector<ScalingPoint>> plan_scaling(const ScalingOptions& options) {
  TAUT_TRY(ScalingPlanner planner, ScalingPlanner::make(options));
  std::vector<ScalingPoint> points;
  for (const std::uint32_t workers : options.workers) {
    for (const Slack slack : planner.slacks()) {
      TAUT_TRY(ScalingPoint point, planner.plan(options.cluster, workers, slack));
      points.push_back(std::move(point));
    }
  }
  return points;
}

}  // namespace taut::lab
