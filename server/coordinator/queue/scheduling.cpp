#include "server/coordinator/queue/scheduling.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

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

/// Whether a job is estimated to end within `time_s`.
bool ends_by(const ScheduledJob& job, double time_s) {
  return remaining(job) <= time_s;
}

/// What a user's running jobs have.
struct Usage {
  std::uint32_t workers = 0;
  std::uint32_t jobs = 0;
};

constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();

/// What the first job that cannot start has reserved.
struct Reservation {
  const ScheduledJob* job = nullptr;
  double from_s = 0;  // when enough workers will be free
  FreeWorkers then;   // those that are free at that time, including its own

  /// How many of `count` workers another job may take and keep beyond that time.
  /// idle  the workers from which they would be taken
  [[nodiscard]] std::uint32_t allowed(const FreeWorkers& idle, const PlaceDemand& demand,
                                      std::uint32_t count, std::uint32_t least) const {
    const std::uint32_t free = then.fitting(job->demand);
    const std::uint32_t spare = free - std::min(free, job->min_workers);
    if (job->demand.none()) return std::min(count, spare);
    // Workers that do not fit the waiting job are not reserved.
    for (std::uint32_t n = count; n > 0 && n >= least; --n) {
      FreeWorkers left = then;
      FreeWorkers from = idle;
      left.remove(from.take(demand, n), demand, n);
      if (left.fitting(job->demand) >= job->min_workers) return n;
    }
    return 0;
  }
  void take(const std::vector<std::size_t>& places, const PlaceDemand& demand,
            std::uint32_t count) {
    then.remove(places, demand, count);
  }
};

/// One decision in the making.
class Round {
 public:
  Round(const SchedulingState& state, SchedulingPolicy::Ways ways)
      : state_(state),
        ways_(ways),
        idle_(state.workers, state.idle_workers),
        all_(idle_),
        server_memory_(state.server_memory),
        running_(state.running) {
    for (ScheduledJob& job : running_) {
      Usage& usage = usage_[job.user];
      usage.workers += job.workers + job.owed;
      ++usage.jobs;
    }
    for (const ScheduledJob& job : running_) {
      all_.release_leaving(job.job, job.demand);
      all_.release_all(job.job, job.demand, job.workers);
    }
    // First, running jobs replace the workers that they lost.
    for (ScheduledJob& job : running_) {
      if (job.owed == 0) continue;
      const std::uint32_t count = std::min(job.owed, idle_.fitting(job.demand));
      given_[job.job] = idle_.take(job.demand, count, job.job);
    }
  }

  void consider(const ScheduledJob& job) {
    if (const auto wait = start(job)) decision_.waits.push_back(*wait);
  }

  /// Gives running jobs the idle workers that no job waits for.
  void grow() {
    std::vector<const ScheduledJob*> jobs;
    for (std::size_t i = 0; i < state_.running.size(); ++i) {
      const ScheduledJob& job = running_[i];
      const bool shrinks =
          std::ranges::count(decision_.shrinks, job.job, &SchedulingDecision::Resize::job) > 0;
      const bool ends =
          job.ends || std::ranges::count(decision_.preemptions, job.job) > 0 || shrinks;
      if (!ends && job.workers + job.owed < job.max_workers) jobs.push_back(&job);
    }
    std::ranges::stable_sort(jobs, [](const ScheduledJob* a, const ScheduledJob* b) {
      return a->priority != b->priority ? a->priority > b->priority : a->job < b->job;
    });
    for (const ScheduledJob* job : jobs) grow(*job);
  }

  SchedulingDecision take() { return std::move(decision_); }

 private:
  [[nodiscard]] const UserQuota* quota_of(const std::string& user) const {
    const UserQuota* others = nullptr;
    for (const UserQuota& quota : state_.quotas) {
      if (quota.user == user) return &quota;
      if (!quota.user) others = &quota;
    }
    return others;
  }

  /// How many more workers the job's user may have.
  [[nodiscard]] std::uint32_t quota_left(const ScheduledJob& job) const {
    const UserQuota* quota = quota_of(job.user);
    if (quota == nullptr || quota->workers == 0) return kNoLimit;
    const auto usage = usage_.find(job.user);
    const std::uint32_t used = usage == usage_.end() ? 0 : usage->second.workers;
    return quota->workers - std::min(quota->workers, used);
  }

  [[nodiscard]] bool exceeds_jobs(const ScheduledJob& job) const {
    const UserQuota* quota = quota_of(job.user);
    if (quota == nullptr || quota->jobs == 0) return false;
    const auto usage = usage_.find(job.user);
    return usage != usage_.end() && usage->second.jobs >= quota->jobs;
  }

  /// The idle workers and those that are leaving a job or whose job is ending.
  [[nodiscard]] FreeWorkers free_soon() const {
    FreeWorkers free = idle_;
    for (const ScheduledJob& job : running_) {
      free.release_leaving(job.job, job.demand);
      if (job.ends) free.release_all(job.job, job.demand, job.workers);
    }
    return free;
  }

  [[nodiscard]] std::optional<SchedulingDecision::Wait> start(const ScheduledJob& job) {
    SchedulingDecision::Wait wait{.job = job.job};
    const auto waits_for = [&wait](WaitReason reason) {
      wait.reason = reason;
      return wait;
    };
    if (exceeds_jobs(job)) return waits_for(WaitReason::kQuotaJobs);
    const std::uint32_t allowed = std::min(job.max_workers, quota_left(job));
    if (allowed < job.min_workers) return waits_for(WaitReason::kQuotaWorkers);
    if (server_memory_ && *server_memory_ < job.server_memory) {
      return waits_for(WaitReason::kServerMemory);
    }
    wait.fitting = idle_.fitting(job.demand);
    if (wait.fitting < job.min_workers) {
      const std::uint32_t all = all_.fitting(job.demand);
      if (all < job.min_workers) {
        wait.fitting = all;
        return waits_for(WaitReason::kTooLarge);
      }
      if (reserved_) return waits_for(WaitReason::kWorkers);
      reserve(job);
      make_room(job);
      return waits_for(WaitReason::kWorkers);
    }
    std::uint32_t workers = std::min(allowed, wait.fitting);
    const bool outlasts = reserved_ && !ends_by(job, reserved_->from_s);
    if (outlasts) {
      workers = reserved_->allowed(idle_, job.demand, workers, job.min_workers);
      wait.behind = reserved_->job->job;
      if (workers < job.min_workers) return waits_for(WaitReason::kBehind);
    }
    std::vector<std::size_t> places = idle_.take(job.demand, workers);
    given_[job.job] = places;
    if (outlasts) reserved_->take(places, job.demand, workers);
    if (server_memory_) *server_memory_ -= job.server_memory;
    Usage& usage = usage_[job.user];
    usage.workers += workers;
    ++usage.jobs;
    decision_.starts.push_back({job.job, workers, std::move(places)});
    running_.push_back(job);
    running_.back().workers = workers;
    return std::nullopt;
  }

  void reserve(const ScheduledJob& job) {
    std::vector<ScheduledJob> running = running_;
    std::erase_if(running, [](const ScheduledJob& one) { return one.ends; });
    std::ranges::stable_sort(running, [](const ScheduledJob& a, const ScheduledJob& b) {
      return remaining(a) < remaining(b);
    });
    reserved_ = Reservation{&job, 0, free_soon()};
    for (const ScheduledJob& one : running) {
      if (reserved_->then.fitting(job.demand) >= job.min_workers) break;
      reserved_->then.release_all(one.job, one.demand, one.workers);
      // The list does not show workers that the job gets in this decision as its own.
      if (const auto given = given_.find(one.job); given != given_.end()) {
        reserved_->then.put_back(given->second, one.demand);
      }
      reserved_->from_s = remaining(one);
    }
    // A job with an unknown end may end at any moment.
    if (reserved_->from_s == kUnknown) reserved_->from_s = 0;
  }

  /// Makes jobs of lower priority shrink, or the lowest of them end, if that is enough for `job`.
  void make_room(const ScheduledJob& job) {
    if (!ways_.shrinks && !ways_.preempts) return;
    std::vector<ScheduledJob> lower;
    for (std::size_t i = 0; i < state_.running.size(); ++i) {
      const ScheduledJob& one = running_[i];
      if (!one.ends && one.priority < job.priority) lower.push_back(one);
    }
    std::ranges::stable_sort(lower, [](const ScheduledJob& a, const ScheduledJob& b) {
      return a.priority != b.priority ? a.priority < b.priority : a.job > b.job;
    });
    const FreeWorkers soon = free_soon();
    FreeWorkers free = soon;
    std::vector<ScheduledJob> whole;  // those that end
    auto shrinks = shrink(job, free, lower);
    while (!shrinks && ways_.preempts) {
      const auto next = std::ranges::find(lower, false, &ScheduledJob::keeps);
      if (next == lower.end()) return;
      free.release_all(next->job, next->demand, next->workers);
      whole.push_back(*next);
      lower.erase(next);
      shrinks = shrink(job, free, lower);
    }
    if (!shrinks) return;
    decision_.shrinks = *std::move(shrinks);
    spare_useless(job, soon, lower, whole);
    for (const ScheduledJob& one : whole) decision_.preemptions.push_back(one.job);
  }

  /// Removes those of `whole` without which `job` can start too: it does not need their workers.
  /// soon    the workers that are free without any of them
  /// others  jobs that may shrink
  void spare_useless(const ScheduledJob& job, const FreeWorkers& soon,
                     const std::vector<ScheduledJob>& others, std::vector<ScheduledJob>& whole) {
    for (std::size_t i = whole.size(); i-- > 0;) {
      std::vector<ScheduledJob> fewer = whole;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      FreeWorkers free = soon;
      for (const ScheduledJob& one : fewer) free.release_all(one.job, one.demand, one.workers);
      auto shrinks = shrink(job, free, others);
      if (!shrinks) continue;
      decision_.shrinks = *std::move(shrinks);
      whole = std::move(fewer);
    }
  }

  /// How `jobs` shrink so that `job` can start; nullopt if it cannot.
  /// free  the workers that are free before they shrink
  [[nodiscard]] std::optional<std::vector<SchedulingDecision::Resize>> shrink(
      const ScheduledJob& job, FreeWorkers free, const std::vector<ScheduledJob>& jobs) const {
    std::vector<SchedulingDecision::Resize> shrinks;
    std::uint32_t fitting = free.fitting(job.demand);
    for (const ScheduledJob& one : jobs) {
      if (fitting >= job.min_workers) break;
      std::uint32_t spare = one.workers - std::min(one.workers, one.min_workers);
      if (!ways_.shrinks || spare == 0) continue;
      SchedulingDecision::Resize& resize =
          shrinks.emplace_back(SchedulingDecision::Resize{one.job, one.workers});
      while (spare > 0 && fitting < job.min_workers) {
        const std::uint32_t count = std::min(spare, job.min_workers - fitting);
        const auto places = free.release(one.job, one.demand, count, job.demand);
        resize.leaving.insert(resize.leaving.end(), places.begin(), places.end());
        const auto released =
            state_.workers.workers.empty() ? count : static_cast<std::uint32_t>(places.size());
        if (released == 0) break;
        resize.workers -= released;
        spare -= released;
        fitting = free.fitting(job.demand);
      }
      if (resize.workers == one.workers) shrinks.pop_back();
    }
    if (fitting < job.min_workers) return std::nullopt;
    return shrinks;
  }

  void grow(const ScheduledJob& job) {
    const std::uint32_t now = job.workers + job.owed;
    std::uint32_t more =
        std::min({job.max_workers - now, quota_left(job), idle_.fitting(job.demand)});
    // Workers that the first waiting job could use are left for it.
    while (reserved_ && more > 0 && takes_of(*reserved_->job, job, more)) --more;
    if (more == 0) return;
    static_cast<void>(idle_.take(job.demand, more, job.job));
    usage_[job.user].workers += more;
    decision_.growths.push_back({job.job, now + more});
  }

  /// Whether giving `job` `count` workers would take any that `waiting` could use.
  [[nodiscard]] bool takes_of(const ScheduledJob& waiting, const ScheduledJob& job,
                              std::uint32_t count) const {
    if (waiting.demand.none()) return true;
    FreeWorkers left = idle_;
    static_cast<void>(left.take(job.demand, count, job.job));
    return left.fitting(waiting.demand) < idle_.fitting(waiting.demand);
  }

  const SchedulingState& state_;
  const SchedulingPolicy::Ways ways_;
  FreeWorkers idle_;
  FreeWorkers all_;  // whatever they are doing now
  std::optional<std::uint64_t> server_memory_;
  std::vector<ScheduledJob> running_;  // state_.running, then the jobs that this decision starts
  std::map<JobId, std::vector<std::size_t>> given_;  // places that jobs get in this decision
  std::map<std::string, Usage> usage_;
  std::optional<Reservation> reserved_;
  SchedulingDecision decision_;
};

}  // namespace

SchedulingDecision SchedulingPolicy::decide(const SchedulingState& state, Ways ways) const {
  std::vector<ScheduledJob> waiting = state.waiting;
  std::ranges::stable_sort(waiting, [this](const ScheduledJob& a, const ScheduledJob& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (precedes(a, b) != precedes(b, a)) return precedes(a, b);
    return a.job < b.job;
  });
  Round round(state, ways);
  for (const ScheduledJob& job : waiting) round.consider(job);
  round.grow();
  return round.take();
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

}  // namespace taut
