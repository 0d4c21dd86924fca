#include <utility>
#include <vector>

#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

/// Shortest remaining time first with preemption, by the true durations: the jobs that would end
/// soonest have the devices.
/// Source    Schrage, "A Proof of the Optimality of the Shortest Remaining Processing Time
///           Discipline", Operations Research 16, 1968
class ShortestRemaining : public Policy {
 public:
  [[nodiscard]] Promise promise() const override { return {.conserves_work = true}; }
  [[nodiscard]] bool counts_shares() const override { return true; }

  [[nodiscard]] Plan decide(const View& view) override {
    std::vector<std::pair<double, JobIndex>> keyed;
    for (const JobIndex job : view.active()) keyed.emplace_back(view.left_s(job), job);
    return fill_by_key(view, std::move(keyed));
  }
};

}  // namespace

std::unique_ptr<Policy> make_srtf() {
  return std::make_unique<ShortestRemaining>();
}

}  // namespace taut::schedule
