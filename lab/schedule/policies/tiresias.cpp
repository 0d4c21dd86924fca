#include <algorithm>
#include <limits>

#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

/// Discretized least attained service in two dimensions: a job whose devices x time are below a
/// threshold is in the first queue, and goes before all of the second one; in a queue, by
/// submission. Jobs are stopped for others ahead of them. A job in the second queue that has
/// waited for eight times as long as it has run goes back to the first one, and its service and the
/// time that it has run count from there; such jobs are looked for at every event, and ten minutes
/// after the last one was found.
/// Source    Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019,
///           section 3.2; the threshold of one device-hour is that of its simulator's example with
///           two queues, the factor of 8 an assumption
class Tiresias : public Policy {
 public:
  [[nodiscard]] Promise promise() const override { return {.conserves_work = true}; }
  [[nodiscard]] bool counts_shares() const override { return true; }

  [[nodiscard]] Plan decide(const View& view) override {
    constexpr double kStarving = 8;
    // Where thousands wait, some job begins to starve at nearly every moment.
    constexpr double kBetweenLooks_s = 600;
    // A job within the rounding of its times has crossed a threshold: it is not seen again.
    constexpr double kRounding = 1e-6;
    double starving_s = std::numeric_limits<double>::infinity();  // the next one does from then on
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
  /// Until the job, with its devices, has what the first queue gives.
  [[nodiscard]] double until_second_s(const View& view, JobIndex job) const {
    constexpr double kThreshold = 3600;
    const double left = kThreshold - (view.attained_s(job) - forgiven_[job].attained_s);
    return left / view.job(job).devices();
  }

  /// What counts no longer of what a job has had.
  struct Forgiven {
    double attained_s = 0;
    double held_s = 0;
  };
  std::vector<Forgiven> forgiven_;  // by job
  double next_look_s_ = 0;          // for jobs that starve, where nothing else happens before
};

}  // namespace

std::unique_ptr<Policy> make_tiresias() {
  return std::make_unique<Tiresias>();
}

}  // namespace taut::schedule
