#include "lab/schedule/policies/live.hpp"

#include <algorithm>

namespace taut::schedule {
namespace {

/// What runs keeps its devices.
constexpr SchedulingPolicy::Ways kOnlyStarts{.shrinks = false, .preempts = false};

ScheduledJob scheduled(const View& view, JobIndex index) {
  const Job& job = view.job(index);
  const JobState& state = view.state(index);
  const bool runs = view.is_running(index);
  const double pause = runs ? std::max(0.0, state.resumes_s - view.now_s()) : 0;
  return {.job = JobId(index + 1),
          .min_workers = job.workers,
          .max_workers = job.workers,
          .workers = view.workers(index),
          .service_s = view.attained_s(index),
          .remaining_s = pause + view.left_s(index) / (runs ? state.speed : 1)};
}

}  // namespace

std::vector<JobIndex> LivePolicy::candidates(const View& view) const {
  std::vector<JobIndex> waiting;
  JobIndex first = kNoJob;
  JobIndex shortest = kNoJob;
  JobIndex least = kNoJob;
  for (const JobIndex job : view.active()) {
    if (view.is_running(job)) continue;
    if (view.job(job).workers <= view.idle_devices()) {
      waiting.push_back(job);
      continue;
    }
    if (first == kNoJob) first = shortest = least = job;
    if (view.left_s(job) < view.left_s(shortest)) shortest = job;
    if (view.attained_s(job) < view.attained_s(least)) least = job;
  }
  if (first != kNoJob) waiting.insert(waiting.end(), {first, shortest, least});
  std::ranges::sort(waiting);
  waiting.erase(std::unique(waiting.begin(), waiting.end()), waiting.end());
  return waiting;
}

Plan LivePolicy::decide(const View& view) {
  Plan plan;
  SchedulingState state;
  for (const JobIndex job : view.active()) {
    if (!view.is_running(job)) continue;
    plan.grants.push_back(keep(view, job));
    state.running.push_back(scheduled(view, job));
  }
  if (view.idle_devices() == 0) return plan;
  state.idle_workers = view.idle_devices();
  for (const JobIndex job : candidates(view)) state.waiting.push_back(scheduled(view, job));
  for (const SchedulingDecision::Start& one : policy_->decide(state, kOnlyStarts).starts) {
    plan.grants.push_back(
        {.job = static_cast<JobIndex>(one.job.value() - 1), .workers = one.workers});
  }
  return plan;
}

}  // namespace taut::schedule
