#include "lab/schedule/policy.hpp"

#include <algorithm>
#include <functional>

namespace taut::schedule {
namespace {

/// Grants a job what it requests, if that much is left.
void grant_from(Parts& left, const View& view, JobIndex job, Plan& plan) {
  const Parts parts = view.asked_parts(job);
  if (parts > left) return;
  left -= parts;
  plan.grants.push_back({.job = job, .workers = view.job(job).workers});
}

}  // namespace

Plan fill_in_order(const View& view, const std::vector<JobIndex>& order) {
  Plan plan;
  Parts left = Parts{kPartsOfDevice} * view.usable_devices();
  for (const JobIndex job : order) {
    if (left == 0) break;
    grant_from(left, view, job, plan);
  }
  return plan;
}

Plan fill_by_key(const View& view, std::vector<std::pair<double, JobIndex>> keyed) {
  // Usually a few of many jobs have devices: the others need no order.
  Plan plan;
  Parts left = Parts{kPartsOfDevice} * view.usable_devices();
  std::ranges::make_heap(keyed, std::ranges::greater());
  while (left > 0 && !keyed.empty()) {
    std::ranges::pop_heap(keyed, std::ranges::greater());
    const JobIndex job = keyed.back().second;
    keyed.pop_back();
    grant_from(left, view, job, plan);
  }
  return plan;
}

Grant keep(const View& view, JobIndex job) {
  return {.job = job, .workers = view.workers(job)};
}

}  // namespace taut::schedule
