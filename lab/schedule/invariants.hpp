#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/schedule/policy.hpp"
#include "lab/schedule/view.hpp"

namespace taut::schedule {

/// What must hold at each event of a simulation:
///   - no device is given beyond itself: the shares on it are at most 1 in all; jobs share all of
///     their devices or none; nor is more of a device's memory than it has, where jobs say what
///     they take (Job::memory_gib)
///   - gang: a job has none of its devices, or as many as it asks for (as it may have, where the
///     policy is elastic), each of them once, on hosts that may be used
///   - work is conserved: a job's progress never shrinks, and grows by no more than its speed since
///     the last event makes, to its end too; no job that was submitted is lost
///   - what the policy promises (Promise). Conserved work only while no device is in part use:
///     shares may leave the parts that a job needs, but no device that has them
class Invariants {
 public:
  Invariants(const View& view, const Policy& policy);

  /// After each event. Returns what is broken, or nothing.
  /// decided  whether the policy has just decided, which is when its promises hold
  [[nodiscard]] std::optional<std::string> check(const View& view, bool decided);
  /// At the end.
  [[nodiscard]] std::optional<std::string> check_end(const View& view) const;

 private:
  /// Of a job at the last check.
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
  std::vector<double> given_;            // of each device
  std::vector<double> memory_gib_;       // taken of each device; empty: no job says
  std::vector<Work> work_;               // of each job that was submitted
  std::vector<JobIndex> were_active_;    // at the last check
  double checked_s_ = 0;                 // when that was
  std::vector<std::uint32_t> rounds_;    // that each job has waited for
  std::vector<std::uint32_t> patience_;  // and may wait for
  JobIndex first_waiting_ = kNoJob;      // by submission
  double reserved_s_ = 0;                // when enough will be free for it
  std::vector<bool> known_running_;      // jobs, at the last decision
};

}  // namespace taut::schedule
