#pragma once

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "lab/schedule/view.hpp"

namespace taut::schedule {

/// What one job gets until the next decision. A new way to give out devices becomes a field here,
/// with its meaning in the simulator: `share` and `with` serve sharing by time or memory, `cell` a
/// divided cluster, `frequency` energy; tickets and trading choose among grants and need none.
struct Grant {
  JobIndex job = kNoJob;
  std::uint32_t workers = 1;         // devices, all at once
  std::optional<DeviceType> type{};  // of all of them; nullopt: any
  Tier within = Tier::kCluster;      // it starts only on devices at least as near as this
  JobIndex with = kNoJob;            // on the devices of this job, granted before it
  double share = 1;                  // of each device
  bool interleaved = false;          // jobs on the same devices take turns in their stages
  bool moves = false;  // while it runs: to other devices, if those are nearer to each other
  // The cell of all of its hosts; nullopt: any. A job that shares devices is where they are.
  std::optional<std::uint32_t> cell{};
  // The frequency of its devices' clocks over the full one; greater than 0, at most 1: computing
  // slows down in proportion. Where jobs share devices, that of `with`, or 1 for Job::share.
  double frequency = 1;
};

/// The whole decision: a job without a grant has no devices.
struct Plan {
  std::vector<Grant> grants;
  /// When the policy decides again, if no event comes first.
  double wake_s = std::numeric_limits<double>::infinity();
};

/// What a policy promises, and the simulation checks at each event.
struct Promise {
  /// No job waits that would fit in the idle devices.
  bool conserves_work = false;
  /// No job starts before one that was submitted earlier.
  bool keeps_order = false;
  /// A waiting job is given devices within as many rounds as there are jobs.
  bool takes_turns = false;
  /// The first job that waits, by submission, is never delayed by later ones: the time at which
  /// enough devices, or enough of one device, will be free for it by the remaining times of running
  /// jobs does not grow. Exceptions are jobs that start on slower or more distant devices than
  /// expected.
  bool keeps_reservation = false;
};

/// Decides which jobs have which devices. The same view gives the same plan; what a policy
/// remembers of earlier calls is a function of them.
class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  [[nodiscard]] virtual Promise promise() const { return {}; }
  /// It decides at multiples of this many seconds; 0: whenever a job arrives or ends.
  [[nodiscard]] virtual double round_s() const { return 0; }
  /// Whether it may use hosts on loan.
  [[nodiscard]] virtual bool uses_loans() const { return false; }
  /// Whether a job that requests a share of a device (Job::share) gets that share, next to other
  /// jobs; with a policy that does not count shares it gets a whole device.
  [[nodiscard]] virtual bool counts_shares() const { return false; }
  /// Whether it gives jobs other numbers of devices than they request.
  [[nodiscard]] virtual bool is_elastic() const { return false; }
  [[nodiscard]] virtual Plan decide(const View& view) = 0;
};

/// Grants devices to the jobs in that order, each if the remaining devices suffice, shares of
/// devices counted: later jobs never delay earlier ones.
[[nodiscard]] Plan fill_in_order(const View& view, const std::vector<JobIndex>& order);

/// As fill_in_order(), in ascending order of keys, then of jobs.
[[nodiscard]] Plan fill_by_key(const View& view, std::vector<std::pair<double, JobIndex>> keyed);

/// A grant of what the job has already.
[[nodiscard]] Grant keep(const View& view, JobIndex job);

}  // namespace taut::schedule
