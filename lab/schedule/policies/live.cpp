#include "lab/schedule/policies/live.hpp"

#include <algorithm>
#include <utility>

namespace taut::schedule {
namespace {

/// What runs keeps its devices.
constexpr SchedulingPolicy::Ways kOnlyStarts{.shrinks = false, .preempts = false};

/// With the devices that it has or would have, all of them fast.
double remaining_s(const View& view, JobIndex index) {
  const JobState& state = view.state(index);
  if (!view.is_running(index)) return view.left_s(index);
  return std::max(0.0, state.resumes_s - view.now_s()) + view.left_s(index) / state.speed;
}

ScheduledJob scheduled(const View& view, JobIndex index) {
  const Job& job = view.job(index);
  const bool runs = view.is_running(index);
  const auto parts = static_cast<std::uint32_t>(job.all_parts());
  return {.job = JobId(index + 1),
          .min_workers = parts,
          .max_workers = parts,
          .workers = runs ? parts : 0,
          .service_s = view.attained_s(index),
          .remaining_s = remaining_s(view, index)};
}

}  // namespace

std::vector<JobIndex> LivePolicy::candidates(const View& view) const {
  std::vector<JobIndex> waiting;
  JobIndex first = kNoJob;
  JobIndex shortest = kNoJob;
  JobIndex least = kNoJob;
  for (const JobIndex job : view.active()) {
    if (view.is_running(job)) continue;
    if (view.job(job).all_parts() <= view.idle_parts()) {
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
  if (view.idle_parts() == 0) return plan;
  state.idle_workers = static_cast<std::uint32_t>(view.idle_parts());
  for (const JobIndex job : candidates(view)) state.waiting.push_back(scheduled(view, job));
  for (const SchedulingDecision::Start& one : policy_->decide(state, kOnlyStarts).starts) {
    const auto job = static_cast<JobIndex>(one.job.value() - 1);
    plan.grants.push_back({.job = job, .workers = view.job(job).workers});
  }
  return plan;
}

std::vector<JobIndex> LivePolicyInOrder::candidates(const View& view) const {
  std::vector<JobIndex> shown;
  Parts idle = view.idle_parts();
  std::vector<std::pair<double, Parts>> ends;  // of what runs: after how long, and its parts
  for (const JobIndex job : view.active()) {
    if (view.is_running(job)) ends.emplace_back(remaining_s(view, job), view.job(job).all_parts());
  }
  // Those that start, up to the first that does not: it reserves its devices.
  const std::vector<JobIndex>& active = view.active();
  auto next = active.begin();
  for (; next != active.end(); ++next) {
    if (view.is_running(*next)) continue;
    shown.push_back(*next);
    const Parts parts = view.job(*next).all_parts();
    if (parts > idle) break;
    idle -= parts;
    ends.emplace_back(view.left_s(*next), parts);
  }
  if (next == active.end() || idle == 0) return shown;
  const Parts reserved = view.job(*next).all_parts();
  std::ranges::stable_sort(ends, {}, &std::pair<double, Parts>::first);
  Parts free = idle;
  double from_s = 0;
  for (const auto& [after_s, parts] : ends) {
    if (free >= reserved) break;
    free += parts;
    from_s = after_s;
  }
  const Parts spare = free - std::min(free, reserved);
  for (++next; next != active.end(); ++next) {
    if (view.is_running(*next)) continue;
    const Parts parts = view.job(*next).all_parts();
    if (parts <= idle && (parts <= spare || view.left_s(*next) <= from_s)) shown.push_back(*next);
  }
  return shown;
}

}  // namespace taut::schedule
