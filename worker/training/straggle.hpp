#pragma once

#include <cstdint>
#include <vector>

#include "common/net/faulty_endpoint.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/cluster.pb.h"
#include "proto/experiment.pb.h"
#include "proto/job.pb.h"

namespace taut::worker {

/// The waits of one worker in an experiment.
struct StragglePlan {
  std::vector<pb::Straggler> stragglers;
  Duration clock_time{0};  // minimum length of every clock's compute
  std::uint64_t seed = 0;
  std::uint32_t slot = 0;
  std::uint32_t slots = 1;

  [[nodiscard]] bool empty() const { return stragglers.empty() && clock_time == Duration::zero(); }
};

/// The combined waits of a job and a worker's own configuration: all stragglers of both, and the
/// configuration's clock time if it has one.
[[nodiscard]] StragglePlan straggle_plan(const pb::Job& job, const pb::WorkerConfig& settings,
                                         std::uint32_t slot, std::uint32_t slots);

/// The network faults of a job or a worker's own configuration; the latter has precedence.
[[nodiscard]] LinkFaults link_faults(const pb::Job& job, const pb::WorkerConfig& settings);

/// How long a worker waits at a clock, given the time of its compute. The clock is first padded to
/// clock_time, and a slowdown multiplies the result, so that many workers on few processors behave
/// like separate machines. A pure function of its arguments.
[[nodiscard]] Duration straggle_wait(const StragglePlan& plan, Clock clock, Duration compute);

}  // namespace taut::worker
