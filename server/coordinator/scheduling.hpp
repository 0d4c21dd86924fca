#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/types.hpp"
#include "proto/cluster.pb.h"

namespace taut {

/// A job that waits for its workers, or has them.
struct ScheduledJob {
  JobId job{};
  std::int32_t priority = 0;      // the higher goes first
  std::uint32_t min_workers = 1;  // it starts with at least so many
  std::uint32_t max_workers = 1;  // and takes no more
  std::uint32_t workers = 0;      // that work for it now
  double service_s = 0;           // worker-seconds that it has had
  std::optional<double>
      remaining_s{};  // with the workers that it has or may take; nothing: unknown
  bool ends = false;  // it is ending, and its workers will be free
};

/// All that a policy may know.
struct SchedulingState {
  std::vector<ScheduledJob> waiting;  // those that are held are left out
  std::vector<ScheduledJob> running;
  std::uint32_t idle_workers = 0;
};

struct SchedulingDecision {
  struct Start {
    JobId job;
    std::uint32_t workers = 0;
  };
  std::vector<Start> starts;       // all of a job's workers at once, or none
  std::vector<JobId> preemptions;  // to be saved and queued again, for a job of higher priority
};

/// Which waiting jobs start, and which running ones make room. Pure: the same state gives the same
/// decision, in a coordinator and in a simulation.
///
/// Jobs are ordered by priority, then by the policy, then by number. The first job that finds too
/// few idle workers reserves them: the earliest time at which enough are free follows from what
/// running jobs have left. Jobs behind it start if they end before that time, or leave its workers
/// alone. A job that all workers together could not run reserves nothing.
/// Source    Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995 (EASY backfilling)
class SchedulingPolicy {
 public:
  SchedulingPolicy() = default;
  SchedulingPolicy(const SchedulingPolicy&) = delete;
  SchedulingPolicy& operator=(const SchedulingPolicy&) = delete;
  virtual ~SchedulingPolicy() = default;

  /// preempts  jobs of lower priority, the lowest and newest first, make room for the first job
  ///           that waits, if that is enough for it
  [[nodiscard]] SchedulingDecision decide(const SchedulingState& state, bool preempts) const;

 private:
  /// Whether `a` goes before `b` of the same priority.
  [[nodiscard]] virtual bool precedes(const ScheduledJob& a, const ScheduledJob& b) const = 0;
};

/// FIFO: the oldest first. SHORTEST_REMAINING: what ends soonest; what is unknown last.
/// LEAST_ATTAINED_SERVICE: what has had the fewest worker-seconds.
/// Source    Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019,
///           section 3.2, for the last one
[[nodiscard]] std::unique_ptr<SchedulingPolicy> make_scheduling_policy(
    pb::SchedulingConfig::Policy policy);

/// A worker that a job may take.
struct IdleWorker {
  std::string name;
  std::string host;
};

/// Chooses `count` of them near each other: from the host whose idle workers exceed the number
/// least, or else from as few hosts as can be. Returns positions, ascending.
/// REQUIRES  count <= idle.size()
[[nodiscard]] std::vector<std::size_t> choose_workers(const std::vector<IdleWorker>& idle,
                                                      std::size_t count);

}  // namespace taut
