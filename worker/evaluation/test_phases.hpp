#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"
#include "worker/cache/parameter_cache.hpp"
#include "worker/engine/backend.hpp"
#include "worker/evaluation/evaluator.hpp"
#include "worker/pace.hpp"
#include "worker/progress.hpp"
#include "worker/records/recorder.hpp"
#include "worker/replica.hpp"

namespace taut::worker {

/// All test phases of a job, run in order. The first one's result is the job's, in records
/// and reports; the results of the others are only logged.
/// Thread    the compute thread
class TestPhases {
 public:
  /// nullptr if the job has none.
  /// submission  as of Hdf5Output
  /// Errors      as Evaluator::create
  [[nodiscard]] static Result<std::unique_ptr<TestPhases>> create(
      const JobAssets& assets, Backend& backend, Pace& pace = machine_pace(),
      std::optional<std::uint64_t> submission = std::nullopt);

  /// Runs and logs all of them for a clock with the newest values, or at the job's clock 0 with its
  /// initial values, even if other workers have pushed since. Returns the first one's result.
  /// recorder  nullptr: no records
  /// Errors    closed: `stop` was set (it is checked before each batch)
  [[nodiscard]] Result<TestResult> run(ParameterCache& cache, Clock clock, Recorder* recorder,
                                       const std::atomic<bool>& stop);

 private:
  explicit TestPhases(Pace& pace) : pace_(pace) {}

  Pace& pace_;
  bool is_resumed_ = false;  // the job's tables start from a checkpoint
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
};

}  // namespace taut::worker
