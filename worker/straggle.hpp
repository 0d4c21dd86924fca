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

/// The waits that an experiment asks of one worker.
struct StragglePlan {
  std::vector<pb::Straggler> stragglers;
  Duration clock_time{0};  // every clock's compute is made at least so long
  std::uint64_t seed = 0;
  std::uint32_t slot = 0;
  std::uint32_t slots = 1;

  [[nodiscard]] bool empty() const { return stragglers.empty() && clock_time == Duration::zero(); }
};

/// What a job and a worker's own config ask for together: all stragglers of both, and the config's
/// clock time where it gives one.
[[nodiscard]] StragglePlan straggle_plan(const pb::Job& job, const pb::WorkerConfig& settings,
                                         std::uint32_t slot, std::uint32_t slots);

/// The network that a job or a worker's own config asks for; the config's where it gives one.
[[nodiscard]] LinkFaults link_faults(const pb::Job& job, const pb::WorkerConfig& settings);

/// How long a worker waits at a clock whose compute took so long by itself. The clock is padded to
/// clock_time first, and a slowdown multiplies what comes of it, so that many workers on few
/// processors behave like machines of their own. A pure function of its arguments.
[[nodiscard]] Duration straggle_wait(const StragglePlan& plan, Clock clock, Duration compute);

}  // namespace taut::worker
