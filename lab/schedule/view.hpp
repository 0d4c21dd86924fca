#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lab/schedule/cluster.hpp"
#include "lab/schedule/throughput.hpp"
#include "lab/schedule/trace_job.hpp"

namespace taut::schedule {

enum class Phase : std::uint8_t { kFuture, kWaiting, kRunning, kEnded };

/// A job in the simulation. Figures that grow are as of `settled_s`.
struct JobState {
  Phase phase = Phase::kFuture;
  double settled_s = 0;
  double progress_s = 0;     // of its service
  double attained_s = 0;     // device-seconds that it has held, a shared device by its share
  double held_s = 0;         // how long it has had devices
  double paused_s = 0;       // of that, device-seconds while it was being started again
  double waits_since_s = 0;  // while it waits: since when
  double started_s = -1;     // first; -1: never
  double ended_s = -1;
  double resumes_s = 0;                   // while it runs: it makes no progress before
  double speed = 0;                       // while it runs
  std::vector<DeviceIndex> devices;       // while it runs
  std::vector<DeviceIndex> last_devices;  // before
  JobIndex leader = kNoJob;               // whose devices it shares
  double share = 1;                       // of each of its devices
  double frequency = 1;                   // of their clocks
  std::uint32_t starts = 0;
  std::uint32_t preemptions = 0;
  std::uint32_t changes = 0;  // of its devices while it ran
};

/// Everything that a policy may know, now.
class View {
 public:
  View(std::span<const Job> jobs, const Cluster& cluster)
      : jobs_(jobs), cluster_(&cluster), states_(jobs.size()), usable_(cluster.own_devices()) {}

  [[nodiscard]] double now_s() const { return now_s_; }
  [[nodiscard]] const Cluster& cluster() const { return *cluster_; }
  [[nodiscard]] const Job& job(JobIndex index) const { return jobs_[index]; }
  [[nodiscard]] const JobState& state(JobIndex index) const { return states_[index]; }
  /// Submitted and not ended, by submission.
  [[nodiscard]] const std::vector<JobIndex>& active() const { return active_; }
  /// Devices that jobs may have now, those on loan included.
  [[nodiscard]] std::uint32_t usable_devices() const { return usable_; }
  [[nodiscard]] std::uint32_t usable_devices(DeviceType type) const;
  /// Of each host, whether jobs may have it now; those on loan only where the policy uses them.
  [[nodiscard]] const std::vector<bool>& usable_hosts() const { return usable_hosts_; }
  /// The tier of the fewest usable hosts of the type that `workers` fit on.
  [[nodiscard]] Tier nearest_tier(std::uint32_t workers, DeviceType type) const {
    return cluster_->nearest_tier(workers, type, usable_hosts_);
  }
  /// Usable devices that no job has.
  [[nodiscard]] std::uint32_t idle_devices() const { return idle_; }
  /// The parts that no job has: of idle devices, and of those in part use.
  [[nodiscard]] Parts idle_parts() const { return idle_parts_; }

  /// The parts that a job requests; whole devices where the policy does not count shares.
  [[nodiscard]] Parts asked_parts(JobIndex index) const {
    const Job& job = jobs_[index];
    return counts_shares_ ? job.all_parts() : Parts{job.workers} * kPartsOfDevice;
  }
  /// As asked_parts(), for one of its devices.
  [[nodiscard]] std::uint32_t asked_parts_of_device(JobIndex index) const {
    return counts_shares_ ? jobs_[index].parts() : kPartsOfDevice;
  }
  /// Whether the policy counts shares and a job of the trace requests one.
  [[nodiscard]] bool has_shares() const { return has_shares_; }

  [[nodiscard]] bool is_running(JobIndex index) const {
    return states_[index].phase == Phase::kRunning;
  }
  [[nodiscard]] std::uint32_t workers(JobIndex index) const {
    return static_cast<std::uint32_t>(states_[index].devices.size());
  }
  /// Device-seconds until now.
  [[nodiscard]] double attained_s(JobIndex index) const;
  /// Seconds with devices until now.
  [[nodiscard]] double held_s(JobIndex index) const;
  /// How much of its service is done now.
  [[nodiscard]] double progress_s(JobIndex index) const;
  /// How much of its service is left now: the truth, which a policy with a perfect estimate has.
  [[nodiscard]] double left_s(JobIndex index) const;
  /// Seconds until its end, with the devices that it has; while it waits, with those that it
  /// requests, fast and near.
  [[nodiscard]] double remaining_s(JobIndex index) const;
  [[nodiscard]] double waited_s(JobIndex index) const {
    return is_running(index) ? 0 : now_s_ - states_[index].waits_since_s;
  }

 private:
  friend class Simulator;

  std::span<const Job> jobs_;
  const Cluster* cluster_;
  std::vector<JobState> states_;
  std::vector<JobIndex> active_;
  std::vector<bool> usable_hosts_;
  std::uint32_t usable_;
  std::uint32_t idle_ = 0;
  Parts idle_parts_ = 0;
  bool counts_shares_ = false;
  bool has_shares_ = false;
  double now_s_ = 0;
};

}  // namespace taut::schedule
