#include <algorithm>
#include <limits>

#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

/// Discretized least attained service in two dimensions: a job whose devices x time are below a
/// threshold is in the first queue, which precedes the whole second one; within a queue, by
/// submission. Jobs are stopped for others ahead of them. A job in the second queue that has waited
/// eight times as long as it has run returns to the first one, and its service and running time
/// count from there; such jobs are looked for at every event, and ten minutes after the last one
/// was found.
/// Source    Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019,
///           section 3.2; the threshold of one device-hour is that of its simulator's example with
///           two queues, the factor of 8 an assumption
class Tiresias : public Policy {
 public:
  [[nodiscard]] Promise promise() const override { return {.conserves_work = true}; }
  [[nodiscard]] bool counts_shares() const override { return true; }

  [[nodiscard]] Plan decide(const View& view) override {
    constexpr double kStarving = 8;
    // When thousands wait, some job begins to starve at nearly every moment.
    constexpr double kBetweenLooks_s = 600;
    // A job within rounding of a threshold has crossed it, so that it is not processed again.
    constexpr double kRounding = 1e-6;
    double starving_s = std::numeric_limits<double>::infinity();  // when the next one starves
    // Active jobs are by submission, and so is each queue.
    std::vector<JobIndex> order;
    std::vector<JobIndex> second_queue;
    for (const JobIndex job : view.active()) {
      if (forgiven_.size() <= job) forgiven_.resize(job + 1);
      const double ran = view.held_s(job) - forgiven_[job].held_s;
      bool second = until_second_s(view, job) <= kRounding;
      const double patience_s = kStarving * ran - view.waited_s(job);
      if (second && ran > 0 && patience_s <= kRounding) {
        forgiven_[job] = {.attained_s = view.attained_s(job), .held_s = view.held_s(job)};
        second = false;
        next_look_s_ = view.now_s() + kBetweenLooks_s;
      }
      if (second) starving_s = std::min(starving_s, view.now_s() + patience_s);
      (second ? second_queue : order).push_back(job);
    }
    order.insert(order.end(), second_queue.begin(), second_queue.end());
    Plan plan = fill_in_order(view, order);
    if (plan.grants.size() < order.size()) {
      plan.wake_s = std::max(starving_s, next_look_s_);
    }
    // When the next one crosses the threshold.
    for (const Grant& grant : plan.grants) {
      const double left_s = until_second_s(view, grant.job);
      if (left_s > kRounding) plan.wake_s = std::min(plan.wake_s, view.now_s() + left_s);
    }
    return plan;
  }

 private:
  /// Time until the job, with its devices, has used up the first queue's allowance.
  [[nodiscard]] double until_second_s(const View& view, JobIndex job) const {
    constexpr double kThreshold = 3600;
    const double left = kThreshold - (view.attained_s(job) - forgiven_[job].attained_s);
    return left / view.job(job).devices();
  }

  /// The part of a job's service that no longer counts.
  struct Forgiven {
    double attained_s = 0;
    double held_s = 0;
  };
  std::vector<Forgiven> forgiven_;  // by job
  double next_look_s_ = 0;          // for starving jobs, if nothing else happens before
};

}  // namespace

std::unique_ptr<Policy> make_tiresias() {
  return std::make_unique<Tiresias>();
}

}  // namespace taut::schedule
