#include "server/coordinator/scheduling.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "common/check.hpp"

namespace taut {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

double remaining(const ScheduledJob& job) {
  return job.remaining_s.value_or(kUnknown);
}

class Fifo : public SchedulingPolicy {
  [[nodiscard]] bool precedes(const ScheduledJob& /*a*/, const ScheduledJob& /*b*/) const override {
    return false;
  }
};

class ShortestRemaining : public SchedulingPolicy {
  [[nodiscard]] bool precedes(const ScheduledJob& a, const ScheduledJob& b) const override {
    return remaining(a) < remaining(b);
  }
};

class LeastAttainedService : public SchedulingPolicy {
  [[nodiscard]] bool precedes(const ScheduledJob& a, const ScheduledJob& b) const override {
    return a.service_s < b.service_s;
  }
};

/// What the first job that cannot start has reserved.
struct Reservation {
  double from_s = 0;        // when enough workers will be free
  std::uint32_t spare = 0;  // workers that are free then and that it does not need
};

Reservation reserve(const ScheduledJob& job, std::vector<ScheduledJob> running,
                    std::uint32_t idle) {
  std::ranges::stable_sort(running, [](const ScheduledJob& a, const ScheduledJob& b) {
    return (a.ends ? 0 : remaining(a)) < (b.ends ? 0 : remaining(b));
  });
  Reservation reservation;
  std::uint32_t free = idle;
  for (const ScheduledJob& one : running) {
    if (free >= job.min_workers) break;
    free += one.workers;
    reservation.from_s = one.ends ? 0 : remaining(one);
  }
  // What is unknown may end at any moment.
  if (reservation.from_s == kUnknown) reservation.from_s = 0;
  reservation.spare = free - std::min(free, job.min_workers);
  return reservation;
}

/// Jobs of lower priority whose workers, with those that are or will be free, suffice for `job`;
/// none if all of them would not.
std::vector<JobId> make_room(const ScheduledJob& job, std::vector<ScheduledJob> running,
                             std::uint32_t idle) {
  std::ranges::stable_sort(running, [](const ScheduledJob& a, const ScheduledJob& b) {
    return a.priority != b.priority ? a.priority < b.priority : a.job > b.job;
  });
  std::uint32_t free = idle;
  for (const ScheduledJob& one : running) free += one.ends ? one.workers : 0;
  std::vector<JobId> preempted;
  for (const ScheduledJob& one : running) {
    if (free >= job.min_workers || one.priority >= job.priority) break;
    if (one.ends) continue;
    free += one.workers;
    preempted.push_back(one.job);
  }
  return free >= job.min_workers ? preempted : std::vector<JobId>();
}

}  // namespace

SchedulingDecision SchedulingPolicy::decide(const SchedulingState& state, bool preempts) const {
  std::vector<ScheduledJob> waiting = state.waiting;
  std::ranges::stable_sort(waiting, [this](const ScheduledJob& a, const ScheduledJob& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (precedes(a, b) != precedes(b, a)) return precedes(a, b);
    return a.job < b.job;
  });
  std::vector<ScheduledJob> running = state.running;
  std::uint32_t all = state.idle_workers;
  for (const ScheduledJob& job : running) all += job.workers;
  std::uint32_t idle = state.idle_workers;
  std::optional<Reservation> reserved;
  SchedulingDecision decision;
  for (ScheduledJob& job : waiting) {
    const bool fits = job.min_workers <= idle;
    if (!reserved && !fits) {
      if (job.min_workers > all) continue;
      reserved = reserve(job, running, idle);
      if (preempts) decision.preemptions = make_room(job, running, idle);
    }
    if (!fits) continue;
    std::uint32_t workers = std::min(job.max_workers, idle);
    if (reserved && remaining(job) > reserved->from_s) {
      workers = std::min(workers, reserved->spare);
      if (workers < job.min_workers) continue;
      reserved->spare -= workers;
    }
    idle -= workers;
    decision.starts.push_back({job.job, workers});
    job.workers = workers;
    running.push_back(job);
  }
  return decision;
}

std::unique_ptr<SchedulingPolicy> make_scheduling_policy(pb::SchedulingConfig::Policy policy) {
  switch (policy) {
    case pb::SchedulingConfig::FIFO:
      return std::make_unique<Fifo>();
    case pb::SchedulingConfig::SHORTEST_REMAINING:
      return std::make_unique<ShortestRemaining>();
    case pb::SchedulingConfig::LEAST_ATTAINED_SERVICE:
      return std::make_unique<LeastAttainedService>();
  }
  TAUT_CHECK(false, "a policy without a number");
}

std::vector<std::size_t> choose_workers(const std::vector<IdleWorker>& idle, std::size_t count) {
  TAUT_CHECK(count <= idle.size(), "more workers than are idle");
  std::map<std::string, std::vector<std::size_t>> of_host;
  for (std::size_t i = 0; i < idle.size(); ++i) of_host[idle[i].host].push_back(i);
  std::vector<std::size_t> chosen;
  while (chosen.size() < count) {
    const std::size_t missing = count - chosen.size();
    // The smallest host that has enough, or else the largest one.
    auto best = of_host.begin();
    for (auto host = of_host.begin(); host != of_host.end(); ++host) {
      const std::size_t size = host->second.size();
      const std::size_t best_size = best->second.size();
      const bool is_better =
          best_size >= missing ? size >= missing && size < best_size : size > best_size;
      if (is_better) best = host;
    }
    const std::size_t taken = std::min(missing, best->second.size());
    chosen.insert(chosen.end(), best->second.begin(),
                  best->second.begin() + static_cast<std::ptrdiff_t>(taken));
    of_host.erase(best);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace taut
