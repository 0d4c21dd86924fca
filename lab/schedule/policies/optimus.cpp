#include <algorithm>
#include <queue>

#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

/// Marginal gain: every job first gets as few devices as it can have, those that end soonest first;
/// then devices go one by one to the job whose time one more shortens most. A job that runs keeps
/// what it has if it would get nearly as much.
/// Source    Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning
///           Clusters", EuroSys 2018, section 4.1; every ten minutes. What is left of a job is
///           known here, where the paper predicts it from the loss.
class Optimus : public Policy {
 public:
  [[nodiscard]] double round_s() const override { return 600; }
  [[nodiscard]] bool is_elastic() const override { return true; }

  [[nodiscard]] Plan decide(const View& view) override {
    std::vector<std::pair<double, JobIndex>> keyed;
    for (const JobIndex job : view.active()) keyed.emplace_back(view.left_s(job), job);
    std::ranges::sort(keyed);
    Plan plan;
    std::uint32_t left = view.usable_devices();
    for (const auto& [left_s, job] : keyed) {
      const std::uint32_t workers = view.job(job).min_workers;
      if (workers > left) continue;
      left -= workers;
      plan.grants.push_back({.job = job, .workers = workers});
    }
    give_more(view, left, plan);
    for (Grant& grant : plan.grants) {
      if (!view.is_running(grant.job)) continue;
      const std::uint32_t has = view.workers(grant.job);
      // A restart for a little less or more does not pay.
      const bool is_near = grant.workers > has ? grant.workers - has <= has / 4 : false;
      if (is_near) grant.workers = has;
    }
    return plan;
  }

 private:
  struct Gain {
    double seconds;
    std::size_t grant;
    bool operator<(const Gain& other) const {
      return seconds != other.seconds ? seconds < other.seconds : grant > other.grant;
    }
  };

  static double time_with(const View& view, JobIndex job, std::uint32_t workers) {
    const Cluster& cluster = view.cluster();
    const Setting setting{.workers = workers, .tier = cluster.nearest_tier(workers)};
    return view.left_s(job) / speed_of(view.job(job), setting, cluster);
  }

  static void give_more(const View& view, std::uint32_t left, Plan& plan) {
    std::priority_queue<Gain> gains;
    const auto offer = [&](std::size_t i) {
      const Grant& grant = plan.grants[i];
      if (grant.workers >= view.job(grant.job).max_workers) return;
      const double gain =
          time_with(view, grant.job, grant.workers) - time_with(view, grant.job, grant.workers + 1);
      if (gain > 0) gains.push({gain, i});
    };
    for (std::size_t i = 0; i < plan.grants.size(); ++i) offer(i);
    while (left > 0 && !gains.empty()) {
      const std::size_t i = gains.top().grant;
      gains.pop();
      ++plan.grants[i].workers;
      --left;
      offer(i);
    }
  }
};

}  // namespace

std::unique_ptr<Policy> make_optimus() {
  return std::make_unique<Optimus>();
}

}  // namespace taut::schedule
