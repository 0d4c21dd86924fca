#include <algorithm>
#include <queue>

#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

/// Marginal gain: every job first gets as few devices as it can have, those that end soonest first;
/// then devices go one by one to the job whose time one more shortens most, until none shortens
/// one. A running job grows only by more than a quarter at once, since a restart for a little more
/// hardly pays; but devices that would otherwise be idle go to the job that gains most by them.
/// Source    Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning
///           Clusters", EuroSys 2018, section 4.1; every ten minutes. A job's remaining work is
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
    return plan;
  }

 private:
  struct Gain {
    double seconds;  // per device
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

  /// What a job saves with more devices than its grant, less what a restart costs it.
  static double gain_s(const View& view, const Grant& grant, std::uint32_t more) {
    constexpr double kRestart = 60;
    const double saved = time_with(view, grant.job, grant.workers) -
                         time_with(view, grant.job, grant.workers + more);
    return keeps(view, grant) ? saved - kRestart : saved;
  }

  /// Whether the grant is what a job already has.
  static bool keeps(const View& view, const Grant& grant) {
    return view.is_running(grant.job) && view.workers(grant.job) == grant.workers;
  }

  /// How many more devices a job is offered at once; 0 if it may have no more.
  static std::uint32_t step_of(const View& view, const Grant& grant) {
    const std::uint32_t room = view.job(grant.job).max_workers - grant.workers;
    return std::min(room, keeps(view, grant) ? grant.workers / 4 + 1 : 1);
  }

  static void give_more(const View& view, std::uint32_t left, Plan& plan) {
    std::priority_queue<Gain> gains;
    const auto offer = [&](std::size_t i) {
      const std::uint32_t step = step_of(view, plan.grants[i]);
      if (step == 0) return;
      const double gain = gain_s(view, plan.grants[i], step) / step;
      if (gain > 0) gains.push({gain, i});
    };
    for (std::size_t i = 0; i < plan.grants.size(); ++i) offer(i);
    std::vector<std::size_t> too_large;  // grants whose next step is more than what is left
    while (left > 0 && !gains.empty()) {
      const std::size_t i = gains.top().grant;
      gains.pop();
      const std::uint32_t step = step_of(view, plan.grants[i]);
      if (step > left) {
        too_large.push_back(i);
        continue;
      }
      plan.grants[i].workers += step;
      left -= step;
      offer(i);
    }
    if (left > 0) give_rest(view, left, too_large, plan);
  }

  static void give_rest(const View& view, std::uint32_t left, const std::vector<std::size_t>& among,
                        Plan& plan) {
    Gain best{.seconds = 0, .grant = plan.grants.size()};
    for (const std::size_t i : among) {
      best = std::max(best, Gain{.seconds = gain_s(view, plan.grants[i], left), .grant = i});
    }
    if (best.seconds > 0) plan.grants[best.grant].workers += left;
  }
};

}  // namespace

std::unique_ptr<Policy> make_optimus() {
  return std::make_unique<Optimus>();
}

}  // namespace taut::schedule
