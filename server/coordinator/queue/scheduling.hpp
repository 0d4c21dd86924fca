#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/types.hpp"
#include "proto/cluster.pb.h"
#include "server/coordinator/queue/worker_pool.hpp"

namespace taut {

/// A job that waits for its workers, or has them.
struct ScheduledJob {
  JobId job{};
  std::int32_t priority = 0;      // the higher goes first
  std::uint32_t min_workers = 1;  // it starts with at least so many, and never shrinks below
  std::uint32_t max_workers = 1;  // and takes no more
  std::uint32_t workers = 0;      // that work for it now and stay
  std::uint32_t owed = 0;         // that it may take for lost ones before any job that waits
  double service_s = 0;           // worker-seconds that it has had
  std::optional<double>
      remaining_s{};   // with the workers that it has or may take; nullopt if unknown
  bool ends = false;   // it is ending, and its workers will be free
  bool keeps = false;  // it cannot be saved now, and makes room only by shrinking
  std::string user{};
  PlaceDemand demand{};             // of each of its workers
  std::uint64_t server_memory = 0;  // bytes of all servers
};

/// The most that one user's jobs may have at a time.
struct UserQuota {
  std::optional<std::string> user{};  // nullopt: each user without a separate quota
  std::uint32_t workers = 0;          // 0: no limit
  std::uint32_t jobs = 0;             // 0: no limit
};

/// All that a policy may know.
struct SchedulingState {
  std::vector<ScheduledJob> waiting;  // those that are held are left out
  std::vector<ScheduledJob> running;
  std::uint32_t idle_workers = 0;  // where workers are all alike; otherwise `workers` has them
  WorkerList workers{};
  std::vector<UserQuota> quotas{};
  std::optional<std::uint64_t> server_memory{};  // bytes that are not reserved; nullopt: no limit
};

/// Why a job does not start.
enum class WaitReason : std::uint8_t {
  kWorkers,       // too few are idle
  kTooLarge,      // all workers together would be too few
  kBehind,        // it would delay the job that goes before it
  kQuotaJobs,     // as many jobs of its user run as may
  kQuotaWorkers,  // its user's jobs would have more workers than they may
  kServerMemory,  // servers have too little memory that is not reserved
};

struct SchedulingDecision {
  struct Start {
    JobId job;
    std::uint32_t workers = 0;
    std::vector<std::size_t> places{};  // in SchedulingState::workers, if it has any
  };
  /// A running job that is to have another number of workers.
  struct Resize {
    JobId job;
    std::uint32_t workers = 0;
    std::vector<std::size_t> leaving{};  // as `places`: those that leave it
  };
  struct Wait {
    JobId job;
    WaitReason reason = WaitReason::kWorkers;
    JobId behind{};             // kBehind
    std::uint32_t fitting = 0;  // kWorkers: idle ones that it may take; kTooLarge: of all
  };
  std::vector<Start> starts;       // all of a job's workers at once, or none
  std::vector<Resize> shrinks;     // in favour of a job of higher priority
  std::vector<Resize> growths;     // with workers that no job waits for
  std::vector<JobId> preemptions;  // to be saved and queued again, for a job of higher priority
  std::vector<Wait> waits;         // all others of those that wait, in their order
};

/// Which waiting jobs start, and which running ones make room. Pure: the same state gives the same
/// decision, in a coordinator and in a simulation.
///
/// Jobs are ordered by priority, then by the policy, then by number. The first job that finds too
/// few idle workers reserves them: the earliest time at which enough are free follows from what
/// running jobs have left. Jobs behind it start if they end before that time, or leave its workers
/// alone. A job that all workers together could not run reserves nothing, and neither does one that
/// exceeds its user's quota or the servers' memory. Idle workers that the first job which waits
/// could not use go to running jobs that may have more, those of the highest priority and then the
/// oldest first.
///
/// Where: a job's workers are on as few hosts as can be, and in one rack if one has enough (see
/// choose_workers()); it grows by the nearest to those that it has, and shrinks by those of hosts
/// and racks where it has the fewest. No job waits for a nearer place.
/// Source    Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995 (EASY backfilling)
class SchedulingPolicy {
 public:
  /// How the first job that waits gets workers of jobs of lower priority, the lowest and newest
  /// first, if that is enough for it. None ends whose workers it cannot use or does not need.
  struct Ways {
    bool shrinks = true;   // they keep at least min_workers
    bool preempts = true;  // where shrinking is not enough, whole jobs make room
  };

  SchedulingPolicy() = default;
  SchedulingPolicy(const SchedulingPolicy&) = delete;
  SchedulingPolicy& operator=(const SchedulingPolicy&) = delete;
  virtual ~SchedulingPolicy() = default;

  [[nodiscard]] SchedulingDecision decide(const SchedulingState& state, Ways ways) const;

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

}  // namespace taut
