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
  std::int32_t priority = 0;      // higher ones go first
  std::uint32_t min_workers = 1;  // required to start; it never shrinks below
  std::uint32_t max_workers = 1;  // it takes no more than this
  std::uint32_t workers = 0;      // working for it now, without those that leave
  std::uint32_t owed = 0;         // replacements for lost workers, served before waiting jobs
  double service_s = 0;           // worker-seconds so far
  std::optional<double>
      remaining_s{};   // with the workers that it has or may take; nullopt if unknown
  bool ends = false;   // it is ending, and its workers will be free
  bool keeps = false;  // it cannot be saved now, and makes room only by shrinking
  std::string user{};
  PlaceDemand demand{};             // of each of its workers
  std::uint64_t server_memory = 0;  // bytes, over all servers
};

/// Limits on what one user's running jobs may have together.
struct UserQuota {
  std::optional<std::string> user{};  // nullopt: each user without a separate quota
  std::uint32_t workers = 0;          // 0: no limit
  std::uint32_t jobs = 0;             // 0: no limit
};

/// Everything that a policy may use.
struct SchedulingState {
  std::vector<ScheduledJob> waiting;  // without jobs that are held
  std::vector<ScheduledJob> running;
  std::uint32_t idle_workers = 0;  // if workers are all alike; otherwise `workers` lists them
  WorkerList workers{};
  std::vector<UserQuota> quotas{};
  std::optional<std::uint64_t> server_memory{};  // unreserved bytes; nullopt: no limit
};

/// Why a job does not start.
enum class WaitReason : std::uint8_t {
  kWorkers,       // too few are idle
  kTooLarge,      // all workers together would be too few
  kBehind,        // it would delay the job that goes before it
  kQuotaJobs,     // its user already runs as many jobs as allowed
  kQuotaWorkers,  // its user's jobs would have more workers than allowed
  kServerMemory,  // servers have too little memory that is not reserved
};

struct SchedulingDecision {
  struct Start {
    JobId job;
    std::uint32_t workers = 0;
    std::vector<std::size_t> places{};  // indices in SchedulingState::workers, if that has any
  };
  /// A running job whose number of workers must change.
  struct Resize {
    JobId job;
    std::uint32_t workers = 0;
    std::vector<std::size_t> leaving{};  // indices as in `places`, of those that leave it
  };
  struct Wait {
    JobId job;
    WaitReason reason = WaitReason::kWorkers;
    JobId behind{};             // kBehind
    std::uint32_t fitting = 0;  // kWorkers: idle workers that fit it; kTooLarge: all that do
  };
  std::vector<Start> starts;       // all of a job's workers at once, or none
  std::vector<Resize> shrinks;     // in favor of a job of higher priority
  std::vector<Resize> growths;     // with workers that no job waits for
  std::vector<JobId> preemptions;  // to save and queue again, for a job of higher priority
  std::vector<Wait> waits;         // all other waiting jobs, in their order
};

/// Which waiting jobs start, and which running ones make room. Pure: the same state gives the same
/// decision, in a coordinator and in a simulation.
///
/// Jobs are ordered by priority, then by the policy, then by number. The first job that finds too
/// few idle workers reserves them: the earliest time at which enough are free follows from what
/// running jobs have left. Jobs behind it start if they end before that time, or do not take its
/// workers. A job that all workers together could not run reserves nothing, and neither does one
/// that exceeds its user's quota or the servers' memory. Idle workers that the first waiting job
/// cannot use go to running jobs that may have more: those of the highest priority first, then the
/// oldest.
///
/// Placement: a job's workers are on as few hosts as possible, and in one rack if one has enough
/// (see choose_workers()); a job grows by the workers nearest to its own, and shrinks by those on
/// hosts and in racks where it has the fewest. No job waits for a nearer place.
/// Source    Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995 (EASY backfilling)
class SchedulingPolicy {
 public:
  /// How the first waiting job gets workers from jobs of lower priority, the lowest and newest
  /// first, if that is enough for it. No job is preempted whose workers it cannot use or need not.
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

/// FIFO: the oldest job first. SHORTEST_REMAINING: the one that ends soonest; unknown ends last.
/// LEAST_ATTAINED_SERVICE: the one with the fewest worker-seconds so far.
/// Source    Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019,
///           section 3.2, for the last one
[[nodiscard]] std::unique_ptr<SchedulingPolicy> make_scheduling_policy(
    pb::SchedulingConfig::Policy policy);

}  // namespace taut
