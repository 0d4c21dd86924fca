#include <algorithm>
#include <array>

#include "lab/schedule/policy_list.hpp"
#include "lab/schedule/type_use.hpp"

namespace taut::schedule {
namespace {

/// Elastic jobs and hosts on loan. First every job gets its base, what it requests: running jobs
/// keep theirs, and waiting ones start with the shortest, each on the fastest type that has enough,
/// on one of the cluster's own hosts or else on a lent one. What is left makes jobs larger: half or
/// twice their base more, by a knapsack over the time that each would save. Devices beyond the base
/// are returned when others wait. Hosts return to their owner starting with the one whose return
/// stops the fewest jobs.
/// Source    Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters", EuroSys 2023,
///           sections 4 and 5; every five minutes. Running times are known, and every job is
///           elastic.
class Lyra : public Policy {
 public:
  explicit Lyra(bool loans) : loans_(loans) {}

  [[nodiscard]] double round_s() const override { return 300; }
  [[nodiscard]] bool uses_loans() const override { return loans_; }
  [[nodiscard]] bool is_elastic() const override { return true; }

  [[nodiscard]] Plan decide(const View& view) override {
    Plan plan;
    std::array<std::uint32_t, kDeviceTypes> left = TypeUse(view).usable;
    std::vector<std::pair<double, JobIndex>> waiting;
    for (const JobIndex job : view.active()) {
      if (!view.is_running(job)) {
        waiting.emplace_back(view.left_s(job), job);
        continue;
      }
      const std::uint32_t workers = std::min(view.workers(job), view.job(job).workers);
      const DeviceType type = type_of(view, job);
      for (const DeviceIndex device : view.state(job).devices) {
        // A job that was too large for any type has several.
        if (type_at(view, device) == type) continue;
        --left[static_cast<std::size_t>(type_at(view, device))];
        ++left[static_cast<std::size_t>(type)];
      }
      take(left[static_cast<std::size_t>(type)], workers);
      plan.grants.push_back({.job = job, .workers = workers});
    }
    // A job that lost devices with a host gets its base back before others start.
    for (Grant& grant : plan.grants) {
      std::uint32_t& idle = left[static_cast<std::size_t>(type_of(view, grant.job))];
      const std::uint32_t more = std::min(view.job(grant.job).workers - grant.workers, idle);
      grant.workers += more;
      idle -= more;
    }
    std::ranges::sort(waiting);
    for (const auto& [left_s, job] : waiting) start(view, job, left, plan);
    for (std::size_t type = 0; type < kDeviceTypes; ++type) {
      if (left[type] > 0) enlarge(view, static_cast<DeviceType>(type), left[type], plan);
    }
    return plan;
  }

 private:
  static void take(std::uint32_t& from, std::uint32_t count) { from -= std::min(from, count); }

  static DeviceType type_at(const View& view, DeviceIndex device) {
    return view.cluster().hosts[view.cluster().host_of[device]].type;
  }
  static DeviceType type_of(const View& view, JobIndex job) {
    return type_at(view, view.state(job).devices.front());
  }

  static void start(const View& view, JobIndex job, std::array<std::uint32_t, kDeviceTypes>& left,
                    Plan& plan) {
    const std::uint32_t workers = view.job(job).workers;
    std::optional<std::size_t> best;
    for (std::size_t type = 0; type < kDeviceTypes; ++type) {
      if (left[type] < workers) continue;
      const auto speed = [&](std::size_t of) {
        return type_speed(view, job, static_cast<DeviceType>(of));
      };
      if (!best || speed(type) > speed(*best)) best = type;
    }
    if (best) {
      left[*best] -= workers;
      plan.grants.push_back(
          {.job = job, .workers = workers, .type = static_cast<DeviceType>(*best)});
      return;
    }
    if (workers <= std::ranges::max(TypeUse(view).usable)) return;
    plan.grants.push_back({.job = job, .workers = workers});
  }

  struct Choice {
    std::uint32_t more;
    double saved_s;
  };

  /// What a job would save with more devices of its type.
  static std::vector<Choice> choices(const View& view, JobIndex job, DeviceType type) {
    const Job& one = view.job(job);
    const auto time = [&](std::uint32_t workers) {
      const Setting setting{
          .workers = workers, .tier = view.nearest_tier(workers, type), .type = type};
      return view.left_s(job) / speed_of(one, setting, view.cluster());
    };
    std::vector<Choice> found;
    for (const std::uint32_t more : {(one.workers + 1) / 2, one.workers}) {
      if (one.workers + more > one.max_workers) continue;
      double saved = time(one.workers) - time(one.workers + more);
      // A restart must pay off; losing what it has costs one.
      constexpr double kRestart = 60;
      const bool has_it = view.workers(job) == one.workers + more;
      if (has_it) saved += kRestart;
      if (saved > kRestart) found.push_back({more, saved});
    }
    return found;
  }

  /// A knapsack of `room` devices, with at most one choice for each job.
  static void enlarge(const View& view, DeviceType type, std::uint32_t room, Plan& plan) {
    std::vector<double> best(room + 1);
    std::vector<std::pair<std::size_t, std::vector<std::uint32_t>>> taken;  // grant, more by room
    for (std::size_t i = 0; i < plan.grants.size(); ++i) {
      const Grant& grant = plan.grants[i];
      const DeviceType its = grant.type                   ? *grant.type
                             : view.is_running(grant.job) ? type_of(view, grant.job)
                                                          : type;
      const bool has_base = grant.workers == view.job(grant.job).workers;
      if (its != type || !has_base || (!grant.type && !view.is_running(grant.job))) continue;
      const std::vector<Choice> of_job = choices(view, grant.job, type);
      if (of_job.empty()) continue;
      taken.emplace_back(i, std::vector<std::uint32_t>(room + 1));
      for (std::uint32_t size = room; size > 0; --size) {
        for (const Choice& choice : of_job) {
          if (choice.more > size || best[size - choice.more] + choice.saved_s <= best[size]) {
            continue;
          }
          best[size] = best[size - choice.more] + choice.saved_s;
          taken.back().second[size] = choice.more;
        }
      }
    }
    // NOLINTNEXTLINE(modernize-loop-convert): clang 14 does not compile views of this libstdc++
    for (auto one = taken.rbegin(); one != taken.rend(); ++one) {
      const std::uint32_t more = one->second[room];
      plan.grants[one->first].workers += more;
      room -= more;
    }
  }

  const bool loans_;
};

}  // namespace

std::unique_ptr<Policy> make_lyra() {
  return std::make_unique<Lyra>(true);
}

std::unique_ptr<Policy> make_lyra_own() {
  return std::make_unique<Lyra>(false);
}

}  // namespace taut::schedule
