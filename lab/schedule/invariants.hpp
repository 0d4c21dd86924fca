#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/schedule/policy.hpp"
#include "lab/schedule/view.hpp"

namespace taut::schedule {

/// What must hold at each event of a simulation:
///   - the shares on a device are at most 1 in all; jobs share all of their devices or none; nor do
///     jobs take more of a device's memory than it has, where they state what they take
///     (Job::memory_gib)
///   - gang: a job has none of its devices, or as many as it requests (or as it may have, if the
///     policy is elastic), each of them once, on usable hosts
///   - work is conserved: a job's progress never shrinks, and grows by no more than its speed since
///     the last event allows, up to its end too; no submitted job is lost
///   - what the policy promises (Promise). Promise::conserves_work only while no device is in part
///     use: free parts may be enough for a job, but on different devices
class Invariants {
 public:
  Invariants(const View& view, const Policy& policy);

  /// Checks after an event. Returns what is broken; nullopt if nothing is.
  /// decided  whether the policy has just decided, which is when its promises hold
  [[nodiscard]] std::optional<std::string> check(const View& view, bool decided);
  /// Checks at the end.
  [[nodiscard]] std::optional<std::string> check_end(const View& view) const;

 private:
  /// A job at the last check.
  struct Work {
    double progress_s = 0;
    double speed = 0;
  };
  [[nodiscard]] std::optional<std::string> check_devices(const View& view);
  [[nodiscard]] std::optional<std::string> check_memory(const View& view, JobIndex job);
  [[nodiscard]] std::optional<std::string> check_gang(const View& view, JobIndex job) const;
  [[nodiscard]] std::optional<std::string> check_work(const View& view);
  [[nodiscard]] std::optional<std::string> check_progress(const View& view, JobIndex job) const;
  [[nodiscard]] std::optional<std::string> check_promise(const View& view);
  [[nodiscard]] std::optional<std::string> check_reservation(const View& view);

  const Promise promise_;
  const bool is_elastic_;
  std::vector<double> given_;            // share of each device that jobs have
  std::vector<double> memory_gib_;       // taken of each device; empty: no job states it
  std::vector<Work> work_;               // of each job that was submitted
  std::vector<JobIndex> were_active_;    // at the last check
  double checked_s_ = 0;                 // when that was
  std::vector<std::uint32_t> rounds_;    // that each job has waited
  std::vector<std::uint32_t> patience_;  // and may wait for
  JobIndex first_waiting_ = kNoJob;      // by submission
  double reserved_s_ = 0;                // when enough will be free for it
  std::vector<bool> known_running_;      // jobs, at the last decision
};

}  // namespace taut::schedule
