#include <algorithm>

#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {
namespace {

/// Placement by sensitivity to the network: a job waits for devices on one host, then in one rack,
/// before it starts further apart, for longer the more it would lose there. Jobs that lose most by
/// distance choose first; nothing is stopped.
/// Source    Sharma et al., "GPU Cluster Scheduling for Network-Sensitive Deep Learning", 2024
///           (arXiv 2401.16492), section 4: delay timers for each tier. It tunes them by how long
///           recent jobs waited; here a job waits for half of the time that it would lose, so that
///           it never waits for longer than it may gain. Preemption is left out.
class NetworkSensitive : public Policy {
 public:
  /// blind   no job waits for near devices, nor goes first: the policy without its placement
  explicit NetworkSensitive(bool blind) : blind_(blind) {}

  [[nodiscard]] Plan decide(const View& view) override {
    Plan plan;
    std::vector<std::pair<double, JobIndex>> waiting;
    for (const JobIndex job : view.active()) {
      if (view.is_running(job)) {
        plan.grants.push_back(keep(view, job));
      } else {
        waiting.emplace_back(blind_ ? 0 : -lost_share(view, job, Tier::kCluster), job);
      }
    }
    std::ranges::sort(waiting);
    for (const auto& [sensitivity, job] : waiting) {
      plan.grants.push_back({.job = job,
                             .workers = view.job(job).workers,
                             .within = blind_ ? Tier::kCluster : accepted(view, job, plan)});
    }
    return plan;
  }

 private:
  /// How many more hours an hour's work takes than on the nearest devices.
  static double lost_share(const View& view, JobIndex job, Tier tier) {
    const Job& one = view.job(job);
    return 1 / speed_of(one, {.workers = one.workers, .tier = tier}, view.cluster()) - 1;
  }

  /// The furthest tier that the job accepts now; adds the time of its next tier to the plan.
  static Tier accepted(const View& view, JobIndex job, Plan& plan) {
    constexpr double kPatience = 0.5;
    const Tier nearest = view.cluster().nearest_tier(view.job(job).workers);
    Tier furthest = nearest;
    for (const Tier tier : {Tier::kRack, Tier::kCluster}) {
      if (tier <= nearest) continue;
      const double patience_s = kPatience * view.left_s(job) * lost_share(view, job, tier);
      if (view.waited_s(job) >= patience_s - 1e-6) {
        furthest = tier;
      } else {
        plan.wake_s = std::min(plan.wake_s, view.state(job).waits_since_s + patience_s);
      }
    }
    return furthest;
  }

  const bool blind_;
};

}  // namespace

std::unique_ptr<Policy> make_network() {
  return std::make_unique<NetworkSensitive>(false);
}

std::unique_ptr<Policy> make_network_blind() {
  return std::make_unique<NetworkSensitive>(true);
}

}  // namespace taut::schedule
