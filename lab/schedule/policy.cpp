#include "lab/schedule/policy.hpp"

#include <algorithm>
#include <functional>

namespace taut::schedule {

Plan fill_in_order(const View& view, const std::vector<JobIndex>& order) {
  Plan plan;
  std::uint32_t left = view.usable_devices();
  for (const JobIndex job : order) {
    if (left == 0) break;
    const std::uint32_t workers = view.job(job).workers;
    if (workers > left) continue;
    left -= workers;
    plan.grants.push_back({.job = job, .workers = workers});
  }
  return plan;
}

Plan fill_by_key(const View& view, std::vector<std::pair<double, JobIndex>> keyed) {
  // Mostly a few of many have devices: the others need no order.
  Plan plan;
  std::uint32_t left = view.usable_devices();
  std::ranges::make_heap(keyed, std::ranges::greater());
  while (left > 0 && !keyed.empty()) {
    std::ranges::pop_heap(keyed, std::ranges::greater());
    const JobIndex job = keyed.back().second;
    keyed.pop_back();
    const std::uint32_t workers = view.job(job).workers;
    if (workers > left) continue;
    left -= workers;
    plan.grants.push_back({.job = job, .workers = workers});
  }
  return plan;
}

Grant keep(const View& view, JobIndex job) {
  return {.job = job, .workers = view.workers(job)};
}

}  // namespace taut::schedule
