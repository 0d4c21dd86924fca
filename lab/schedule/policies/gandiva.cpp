#include <algorithm>
#include <array>
#include <compare>

#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

/// Time slices, packing and migration: the jobs that ran longest ago get the devices for the next
/// slice, and among running jobs those with the fewest slices in a row. While others wait, a job
/// also runs on the devices of another one of its size if both keep three quarters of their
/// speed. When none waits, a job that is spread is moved together.
/// Source    Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018,
///           section 3. It finds by trial which jobs pack well, here the model determines it; its
///           slices are a minute, here five, because a job may return on other devices.
class Gandiva : public Policy {
 public:
  [[nodiscard]] Promise promise() const override { return {.takes_turns = true}; }
  [[nodiscard]] double round_s() const override { return 300; }

  [[nodiscard]] Plan decide(const View& view) override {
    struct Turn {
      double since;
      std::uint32_t slices;
      JobIndex job;
      auto operator<=>(const Turn&) const = default;
    };
    std::vector<Turn> turns;
    for (const JobIndex job : view.active()) {
      if (slices_.size() <= job) slices_.resize(job + 1);
      const bool runs = view.is_running(job);
      slices_[job] = runs ? slices_[job] + 1 : 0;
      turns.push_back({runs ? view.now_s() : view.state(job).waits_since_s, slices_[job], job});
    }
    std::ranges::sort(turns);
    std::vector<JobIndex> order;
    order.reserve(turns.size());
    for (const Turn& turn : turns) order.push_back(turn.job);
    Plan plan = fill_in_order(view, order);
    if (plan.grants.size() == order.size()) {
      for (Grant& grant : plan.grants) grant.moves = view.is_running(grant.job);
    } else {
      pack(view, order, plan);
    }
    return plan;
  }

 private:
  static void pack(const View& view, const std::vector<JobIndex>& order, Plan& plan) {
    constexpr double kKept = 0.75;
    std::vector<bool> granted(order.empty() ? 0 : *std::ranges::max_element(order) + 1);
    for (const Grant& grant : plan.grants) granted[grant.job] = true;
    const std::size_t leaders = plan.grants.size();
    std::vector<bool> paired(leaders);
    for (const JobIndex job : order) {
      if (granted[job]) continue;
      for (std::size_t i = 0; i < leaders; ++i) {
        Grant& leader = plan.grants[i];
        if (paired[i] || leader.workers != view.job(job).workers) continue;
        const std::array pair = {&view.job(leader.job), &view.job(job)};
        if (packed_factor(pair) < kKept) continue;
        paired[i] = true;
        leader.share = 0.5;
        plan.grants.push_back(
            {.job = job, .workers = leader.workers, .with = leader.job, .share = 0.5});
        break;
      }
    }
  }

  std::vector<std::uint32_t> slices_;  // in a row, of each job
};

}  // namespace

std::unique_ptr<Policy> make_gandiva() {
  return std::make_unique<Gandiva>();
}

}  // namespace taut::schedule
