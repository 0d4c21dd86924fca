#include "lab/schedule/policy.hpp"

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

Grant keep(const View& view, JobIndex job) {
  return {.job = job, .workers = view.workers(job)};
}

}  // namespace taut::schedule
