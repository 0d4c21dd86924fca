#include <algorithm>
#include <array>
#include <map>

#include "lab/schedule/policy_list.hpp"
#include "lab/schedule/solvers/grouping.hpp"

namespace taut::schedule {
namespace {

/// Interleaving of resources: jobs that request the same number of devices form groups of up to
/// three that share them, so that each uses a different stage at any time. Groups are matched for
/// the greatest sum of efficiencies, first in pairs, then pairs with single jobs; jobs with the
/// least left, time x devices, go first; what groups leave idle goes to single jobs. When all fit
/// without sharing, no job shares. A plan stays until a job arrives or ends.
/// Source    Zhao et al., "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM 2022,
///           sections 4 and 5, with known durations (Muri-S); every six minutes. It has four
///           stages; the traces' stages here are three.
class Muri : public Policy {
 public:
  [[nodiscard]] double round_s() const override { return 360; }

  [[nodiscard]] Plan decide(const View& view) override {
    if (view.active() != planned_for_) plan_ = make_plan(view);
    planned_for_ = view.active();
    return plan_;
  }

 private:
  using Group = std::vector<JobIndex>;  // by their order

  static Plan make_plan(const View& view) {
    std::vector<std::pair<double, JobIndex>> keyed;
    std::uint64_t requested = 0;
    for (const JobIndex job : view.active()) {
      keyed.emplace_back(view.left_s(job) * view.job(job).workers, job);
      requested += view.job(job).workers;
    }
    std::ranges::sort(keyed);
    std::vector<JobIndex> order;
    order.reserve(keyed.size());
    for (const auto& [left, job] : keyed) order.push_back(job);
    if (requested <= view.usable_devices()) return fill_in_order(view, order);
    return place(view, groups_of(view, order), order);
  }

  static std::vector<const Job*> jobs_of(const View& view, const Group& group) {
    std::vector<const Job*> jobs;
    for (const JobIndex job : group) jobs.push_back(&view.job(job));
    return jobs;
  }

  /// How well a group of both uses the stages; 0 if they cannot be one, or would lose by it.
  static double weight(const View& view, const Group& a, const Group& b) {
    if (a.size() + b.size() > kStages) return 0;
    Group both = a;
    both.insert(both.end(), b.begin(), b.end());
    // Faster than running the two one after the other.
    constexpr double kGain = 1.1;
    const double before = std::max(speed_of_all(view, a), speed_of_all(view, b));
    if (speed_of_all(view, both) < kGain * before) return 0;
    return interleaving_efficiency(jobs_of(view, both));
  }

  /// The progress that a group makes together, in jobs. A job alone overlaps its own stages: taking
  /// turns with no other job, it would be slower.
  static double speed_of_all(const View& view, const Group& group) {
    if (group.size() == 1) return 1;
    const std::vector<const Job*> jobs = jobs_of(view, group);
    const double cycle = interleaved_cycle_s(jobs);
    double speed = 0;
    for (const Job* job : jobs) speed += job->iteration_s / cycle;
    return speed;
  }

  static bool are_together(const View& view, const Group& a, const Group& b) {
    return view.is_running(a.front()) && view.is_running(b.front()) &&
           view.state(a.front()).devices == view.state(b.front()).devices;
  }

  /// Groups of jobs with the same stages are equivalent.
  using Kind = std::vector<std::array<double, kStages + 1>>;
  static Kind kind_of(const View& view, const Group& group) {
    Kind kind;
    for (const Job* job : jobs_of(view, group)) {
      kind.push_back({job->iteration_s, job->stage_s[0], job->stage_s[1], job->stage_s[2]});
    }
    std::ranges::sort(kind);
    return kind;
  }

  static std::vector<Group> merge_once(const View& view, std::vector<Group> groups) {
    std::map<Kind, std::vector<std::size_t>> of_kind;
    for (std::size_t i = 0; i < groups.size(); ++i) of_kind[kind_of(view, groups[i])].push_back(i);
    std::vector<std::vector<std::size_t>> kinds;
    std::vector<std::uint32_t> counts;
    for (auto& [kind, members] : of_kind) {
      counts.push_back(static_cast<std::uint32_t>(members.size()));
      kinds.push_back(std::move(members));
    }
    const std::vector<Pairing> pairings = best_pairs(counts, [&](std::size_t a, std::size_t b) {
      return weight(view, groups[kinds[a].front()], groups[kinds[b].front()]);
    });
    std::vector<bool> used(groups.size());
    const auto merge = [&](std::size_t a, std::size_t b) {
      groups[a].insert(groups[a].end(), groups[b].begin(), groups[b].end());
      used[a] = used[b] = true;
      groups[b].clear();
    };
    for (Pairing pairing : pairings) {
      // Existing groups first: they need no restart.
      for (const bool only_together : {true, false}) {
        for (const std::size_t a : kinds[pairing.a]) {
          for (const std::size_t b : kinds[pairing.b]) {
            if (pairing.pairs == 0 || used[a]) break;
            if (a == b || used[b]) continue;
            if (only_together && !are_together(view, groups[a], groups[b])) continue;
            merge(a, b);
            --pairing.pairs;
          }
        }
      }
    }
    std::erase_if(groups, [](const Group& group) { return group.empty(); });
    return groups;
  }

  /// Groups in the order of their first jobs, of the jobs for which the devices could suffice.
  static std::vector<Group> groups_of(const View& view, const std::vector<JobIndex>& order) {
    std::map<std::uint32_t, std::vector<Group>> of_size;
    std::vector<std::size_t> rank(*std::ranges::max_element(order) + 1);
    std::uint64_t requested = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      rank[order[i]] = i;
      const std::uint32_t workers = view.job(order[i]).workers;
      of_size[workers].push_back({order[i]});
      requested += workers;
      if (requested >= kStages * std::uint64_t{view.usable_devices()}) break;
    }
    std::vector<Group> groups;
    for (auto& [workers, single] : of_size) {
      for (int times = 0; times < 2; ++times) single = merge_once(view, std::move(single));
      groups.insert(groups.end(), single.begin(), single.end());
    }
    // A group is as urgent as its first job.
    const auto urgency = [&](const Group& group) {
      std::size_t first = rank[group.front()];
      for (const JobIndex job : group) first = std::min(first, rank[job]);
      return first;
    };
    std::ranges::stable_sort(groups, {}, urgency);
    return groups;
  }

  static Plan place(const View& view, const std::vector<Group>& groups,
                    const std::vector<JobIndex>& order) {
    Plan plan;
    std::vector<bool> granted(*std::ranges::max_element(order) + 1);
    std::uint32_t left = view.usable_devices();
    for (Group group : groups) {
      const std::uint32_t workers = view.job(group.front()).workers;
      if (workers > left) continue;
      left -= workers;
      // The others join the devices of a running one.
      const auto leader =
          std::ranges::find_if(group, [&](JobIndex job) { return view.is_running(job); });
      if (leader != group.end()) std::iter_swap(group.begin(), leader);
      const double share = 1.0 / static_cast<double>(group.size());
      for (std::size_t i = 0; i < group.size(); ++i) {
        granted[group[i]] = true;
        plan.grants.push_back({.job = group[i],
                               .workers = workers,
                               .with = i == 0 ? kNoJob : group.front(),
                               .share = share,
                               .interleaved = true});
      }
    }
    // Most jobs of a long queue are in no group.
    for (const JobIndex job : order) {
      const std::uint32_t workers = view.job(job).workers;
      if (granted[job] || workers > left) continue;
      left -= workers;
      plan.grants.push_back({.job = job, .workers = workers});
    }
    return plan;
  }

  std::vector<JobIndex> planned_for_;
  Plan plan_;
};

}  // namespace

std::unique_ptr<Policy> make_muri() {
  return std::make_unique<Muri>();
}

}  // namespace taut::schedule
