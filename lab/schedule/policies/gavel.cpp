#include <algorithm>
#include <array>
#include <limits>

#include "lab/schedule/policy_list.hpp"
#include "lab/schedule/solvers/linear_program.hpp"
#include "lab/schedule/type_use.hpp"

namespace taut::schedule {
namespace {

using PerType = std::array<double, kDeviceTypes>;

/// Max-min fairness over types of devices: a linear program gives the part of its time that each
/// job should have on each type, so that the job that is worst off compared with an equal part of
/// every type is as well off as possible. Rounds approximate that: the jobs furthest behind their
/// part of a type get its devices. When jobs arrive or end, the parts are computed again and their
/// rounds are counted from zero, but a job is still owed what it missed under its former parts.
///   maximize   z + small x sum of the progress
///   so that    progress of each job / that with an equal part >= z
///              total time of each job <= 1; total devices of each type <= what exists
/// Source    Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning
///           Workloads", OSDI 2020, sections 3 to 5; rounds of six minutes
class Gavel : public Policy {
 public:
  /// blind   it treats all types as equal, as earlier schedulers did
  explicit Gavel(bool blind) : blind_(blind) {}

  [[nodiscard]] double round_s() const override { return kRound; }

  [[nodiscard]] Plan decide(const View& view) override {
    count_round(view);
    if (view.active() != solved_for_) {
      const std::vector<double> owed = owed_to(view);
      solve(view);
      begin_anew(view, owed);
    }
    for (const JobIndex job : view.active()) {
      for (std::size_t type = 0; type < kDeviceTypes; ++type) due_[job][type] += part_[job][type];
    }
    return place(view);
  }

 private:
  static constexpr double kRound = 360;

  /// What each job had of each type in the previous round.
  void count_round(const View& view) {
    for (const JobIndex job : view.active()) {
      if (received_.size() <= job) {
        received_.resize(job + 1);
        due_.resize(job + 1);
        part_.resize(job + 1);
      }
      const std::vector<DeviceIndex>& devices = view.state(job).devices;
      if (devices.empty()) continue;
      const HostIndex host = view.cluster().host_of[devices.front()];
      received_[job][static_cast<std::size_t>(view.cluster().hosts[host].type)] += 1;
    }
  }

  [[nodiscard]] double speed(const View& view, JobIndex job, std::size_t type) const {
    return blind_ ? 1 : type_speed(view, job, static_cast<DeviceType>(type));
  }

  /// What each active job would have done in the rounds that it has missed, in rounds at its full
  /// speed. What it had beyond its part would have been idle, and does not count against it.
  [[nodiscard]] std::vector<double> owed_to(const View& view) const {
    std::vector<double> owed;
    owed.reserve(view.active().size());
    for (const JobIndex job : view.active()) {
      double sum = 0;
      for (std::size_t type = 0; type < kDeviceTypes; ++type) {
        const double missed = due_[job][type] - received_[job][type];
        if (missed != 0) sum += missed * speed(view, job, type);
      }
      owed.push_back(std::max(0.0, sum));
    }
    return owed;
  }

  /// Starts counting rounds under the new parts, plus what is owed on the types that they name.
  void begin_anew(const View& view, const std::vector<double>& owed) {
    for (std::size_t i = 0; i < owed.size(); ++i) {
      const JobIndex job = view.active()[i];
      received_[job].fill(0);
      due_[job].fill(0);
      double progress = 0;
      for (std::size_t type = 0; type < kDeviceTypes; ++type) {
        if (part_[job][type] > 0) progress += part_[job][type] * speed(view, job, type);
      }
      if (owed[i] <= 0 || progress <= 0) continue;
      for (std::size_t type = 0; type < kDeviceTypes; ++type) {
        due_[job][type] = owed[i] * part_[job][type] / progress;
      }
    }
  }

  void solve(const View& view) {
    constexpr double kSmall = 1e-3;
    solved_for_ = view.active();
    const TypeUse use(view);
    const auto jobs = static_cast<double>(solved_for_.size());
    LinearProgram program;
    const std::size_t worst = program.add_variable(1);
    std::array<std::vector<LinearProgram::Term>, kDeviceTypes> of_type;
    std::vector<PerType> variables(solved_for_.size());
    for (std::size_t i = 0; i < solved_for_.size(); ++i) {
      const JobIndex job = solved_for_[i];
      const double workers = view.job(job).workers;
      double equal = 0;
      std::vector<LinearProgram::Term> time;
      for (std::size_t type = 0; type < kDeviceTypes; ++type) {
        if (use.usable[type] < workers) continue;
        // Its part of the type's devices, all at once for a part of the time.
        equal += speed(view, job, type) * std::min(1.0, use.usable[type] / jobs / workers);
      }
      if (equal <= 0) continue;
      std::vector<LinearProgram::Term> progress = {{worst, -1}};
      for (std::size_t type = 0; type < kDeviceTypes; ++type) {
        if (use.usable[type] < workers) continue;
        const double relative = speed(view, job, type) / equal;
        const std::size_t part = program.add_variable(kSmall * relative / jobs, 1);
        variables[i][type] = static_cast<double>(part);
        time.push_back({part, 1});
        of_type[type].push_back({part, workers});
        progress.push_back({part, relative});
      }
      program.add_row(time, -LinearProgram::kNoLimit, 1);
      program.add_row(progress, 0, LinearProgram::kNoLimit);
    }
    for (std::size_t type = 0; type < kDeviceTypes; ++type) {
      if (of_type[type].empty()) continue;
      program.add_row(of_type[type], -LinearProgram::kNoLimit, use.usable[type]);
    }
    const std::vector<double> values = program.maximize();
    for (std::size_t i = 0; i < solved_for_.size(); ++i) {
      PerType& part = part_[solved_for_[i]];
      for (std::size_t type = 0; type < kDeviceTypes; ++type) {
        const auto variable = static_cast<std::size_t>(variables[i][type]);
        // Variable 0 is the objective.
        part[type] = variable == 0 || values.empty() ? 0 : values[variable];
      }
    }
  }

  struct Claim {
    double priority;
    JobIndex job;
    std::size_t type;
  };

  [[nodiscard]] std::vector<Claim> claims_of(const View& view) const {
    constexpr double kNothing = 1e-6;
    std::vector<Claim> claims;
    for (const JobIndex job : view.active()) {
      for (std::size_t type = 0; type < kDeviceTypes; ++type) {
        const double part = part_[job][type];
        if (part <= kNothing) continue;
        claims.push_back({due_[job][type] / (received_[job][type] + 0.5), job, type});
      }
    }
    std::ranges::stable_sort(claims, std::ranges::greater(), &Claim::priority);
    return claims;
  }

  [[nodiscard]] Plan place(const View& view) const {
    Plan plan;
    std::array<std::uint32_t, kDeviceTypes> idle = TypeUse(view).usable;
    const std::array<std::uint32_t, kDeviceTypes> usable = idle;
    std::vector<bool> granted(part_.size());
    const auto grant = [&](JobIndex job, std::size_t type) {
      const std::uint32_t workers = view.job(job).workers;
      if (granted[job] || workers > idle[type]) return;
      granted[job] = true;
      idle[type] -= workers;
      plan.grants.push_back(
          {.job = job, .workers = workers, .type = static_cast<DeviceType>(type)});
    };
    for (const Claim& claim : claims_of(view)) grant(claim.job, claim.type);
    // Devices that the parts leave idle.
    for (const JobIndex job : view.active()) {
      const std::uint32_t workers = view.job(job).workers;
      if (granted[job]) continue;
      if (workers > std::ranges::max(usable)) {
        // Too large for any type: it takes several, when they are free.
        plan.grants.push_back({.job = job, .workers = workers});
      } else if (workers <= std::ranges::max(idle)) {
        for (const std::size_t type : by_speed(view, job)) grant(job, type);
      }
    }
    return plan;
  }

  /// The types, starting with the one on which the job is fastest; if blind, with any one, by the
  /// job.
  [[nodiscard]] std::array<std::size_t, kDeviceTypes> by_speed(const View& view,
                                                               JobIndex job) const {
    std::array<std::size_t, kDeviceTypes> types{};
    for (std::size_t i = 0; i < kDeviceTypes; ++i) types[i] = blind_ ? (i + job) % kDeviceTypes : i;
    std::ranges::stable_sort(types, std::ranges::greater(),
                             [&](std::size_t type) { return speed(view, job, type); });
    return types;
  }

  const bool blind_;
  std::vector<JobIndex> solved_for_;
  std::vector<PerType> part_;      // of its time, of each job
  std::vector<PerType> due_;       // rounds since the program was solved, and owed from before
  std::vector<PerType> received_;  // of the due rounds
};

}  // namespace

std::unique_ptr<Policy> make_gavel() {
  return std::make_unique<Gavel>(false);
}

std::unique_ptr<Policy> make_gavel_blind() {
  return std::make_unique<Gavel>(true);
}

}  // namespace taut::schedule
