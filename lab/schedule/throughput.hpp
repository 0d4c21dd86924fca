#pragma once

#include <span>

#include "lab/schedule/cluster.hpp"
#include "lab/schedule/trace_job.hpp"

namespace taut::schedule {

/// Where a job runs, as far as its speed depends on it.
struct Setting {
  std::uint32_t workers = 1;
  Tier tier = Tier::kHost;
  DeviceType type = DeviceType::kV100;  // the slowest of its devices'
  double frequency = 1;                 // of their clocks
};

/// Seconds of an iteration. The computation is divided by the type's speed and waits for the
/// slowest worker; the exchange is a ring over the slowest link of the tier, and half of the
/// computation hides it.
///   compute = iteration_s / speed / frequency x (1 + 0.03 log2 workers)
///   exchange = 2 (workers - 1) / workers x 4 bytes x parameters / link
///   iteration = compute + max(0, exchange - compute / 2)
/// The 0.03 and the half are assumptions.
[[nodiscard]] double iteration_s(const Model& model, const Setting& setting,
                                 const Cluster& cluster);

/// Progress per second, in seconds of the job's service: 1 with the workers that it requests, all
/// V100, on as few hosts as they fit on. Each worker has its own batch, so the rate of examples is
/// workers / iteration_s.
/// A job with a plan (Job::planned) has the plan's rates instead, scaled as a whole by the devices'
/// frequency, and 1 with the plan's fastest type.
[[nodiscard]] double speed_of(const Job& job, const Setting& setting, const Cluster& cluster);

/// The job's speed on one device of that type, to compare types.
[[nodiscard]] double device_speed(const Job& job, DeviceType type);

/// The fraction of its speed that each of several jobs keeps on the same devices without
/// coordination: all slow down until the busiest stage is in use no more than all of the time.
[[nodiscard]] double packed_factor(std::span<const Job* const> jobs);

/// The length of a cycle in which every job makes one iteration and no two use a stage at once: the
/// jobs go through the stages in turn, each starting from another one, and in each turn wait for
/// the slowest. It is the shortest over all ways to start. REQUIRES at most kStages jobs.
/// Source    Zhao et al., "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM 2022,
///           section 4.1
[[nodiscard]] double interleaved_cycle_s(std::span<const Job* const> jobs);

/// How fully such a cycle uses the stages: the mean over the stages of the time in use.
[[nodiscard]] double interleaving_efficiency(std::span<const Job* const> jobs);

}  // namespace taut::schedule
