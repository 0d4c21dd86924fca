#include <algorithm>
#include <array>

#include "lab/schedule/policy_list.hpp"
#include "lab/schedule/solvers/assignment.hpp"
#include "lab/schedule/type_use.hpp"

namespace taut::schedule {
namespace {

/// Jobs matched to types of devices and to places in their queues: on a type, a job that is the
/// k-th from the end delays k jobs by its time, itself included, so the matching of least cost has
/// the least mean completion time. Jobs first in a queue start where they fit; nothing is stopped.
/// Source    Le et al., "AlloX: Compute Allocation in Hybrid Clusters", EuroSys 2020, section 4.
///           Its machines take one job each; here a type is one machine that is as fast as its
///           devices together, which a job uses for its device-time. The matching is over the 64
///           waiting jobs that take least; the fairness parameter is left out.
class AlloX : public Policy {
 public:
  [[nodiscard]] Plan decide(const View& view) override {
    Plan plan;
    std::vector<std::pair<double, JobIndex>> waiting;
    for (const JobIndex job : view.active()) {
      if (view.is_running(job)) {
        plan.grants.push_back(keep(view, job));
      } else {
        waiting.emplace_back(view.left_s(job) * view.job(job).workers, job);
      }
    }
    if (view.idle_devices() == 0 || waiting.empty()) return plan;
    const std::size_t count = std::min(kMatched, waiting.size());
    std::ranges::partial_sort(waiting, waiting.begin() + static_cast<std::ptrdiff_t>(count));
    waiting.resize(count);
    start_matched(view, waiting, plan);
    return plan;
  }

 private:
  static constexpr std::size_t kMatched = 64;

  struct Place {
    std::size_t type;
    std::size_t from_end;
    JobIndex job;
  };

  static void start_matched(const View& view, const std::vector<std::pair<double, JobIndex>>& jobs,
                            Plan& plan) {
    const TypeUse use(view);
    std::vector<std::vector<double>> costs;
    for (const auto& [area, job] : jobs) {
      std::vector<double> row;
      for (std::size_t type = 0; type < kDeviceTypes; ++type) {
        const double time = time_on(view, use, job, type);
        for (std::size_t k = 1; k <= jobs.size(); ++k) row.push_back(static_cast<double>(k) * time);
      }
      costs.push_back(std::move(row));
    }
    const std::vector<std::size_t> column = least_cost_assignment(costs);
    std::vector<Place> places;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      places.push_back({column[i] / jobs.size(), column[i] % jobs.size(), jobs[i].second});
    }
    // From the front of each queue.
    std::ranges::sort(places, std::ranges::greater(), &Place::from_end);
    std::array<std::uint32_t, kDeviceTypes> idle = use.idle;
    for (const Place& place : places) {
      const std::uint32_t workers = view.job(place.job).workers;
      if (workers > std::ranges::max(use.usable)) {
        // Too large for any type: it takes several, when they are free.
        plan.grants.push_back({.job = place.job, .workers = workers});
        continue;
      }
      if (workers > idle[place.type]) continue;
      idle[place.type] -= workers;
      plan.grants.push_back(
          {.job = place.job, .workers = workers, .type = static_cast<DeviceType>(place.type)});
    }
  }

  /// How long the job would take with all devices of the type, in seconds.
  static double time_on(const View& view, const TypeUse& use, JobIndex job, std::size_t type) {
    constexpr double kNever = 1e15;
    const std::uint32_t workers = view.job(job).workers;
    if (use.usable[type] < workers) return kNever;
    return view.left_s(job) * workers / type_speed(view, job, static_cast<DeviceType>(type)) /
           use.usable[type];
  }
};

}  // namespace

std::unique_ptr<Policy> make_allox() {
  return std::make_unique<AlloX>();
}

}  // namespace taut::schedule
