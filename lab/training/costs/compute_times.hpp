#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"
#include "proto/lab.pb.h"
#include "worker/model/graph.hpp"
#include "worker/pace.hpp"

namespace taut::lab {

/// Compute times, in microseconds of a core of speed 1: a function of the seed, the worker and the
/// clock.
class ComputeTimes {
 public:
  /// graph  the training net's
  /// batch  its records
  /// Errors    invalid: a layer that the net does not have; no times at all
  [[nodiscard]] static Result<ComputeTimes> make(const pb::LabCompute& compute,
                                                 const model::Graph& graph, std::int64_t batch,
                                                 std::uint64_t seed);

  /// The spread alone: only factor() is meaningful.
  [[nodiscard]] static ComputeTimes of_spread(const pb::LabCompute& compute, std::uint64_t seed);

  [[nodiscard]] double layer(worker::Pace::Pass pass, std::size_t layer, std::uint32_t worker,
                             Clock clock) const;
  /// The mean of a clock's forward and backward.
  [[nodiscard]] double whole_clock() const;
  /// The time to make a clock's batch.
  [[nodiscard]] double feed() const { return feed_; }
  /// The time of a test net's forward over `records` records.
  [[nodiscard]] double test(std::int64_t records) const;
  /// A worker's time for a clock, relative to its mean.
  [[nodiscard]] double factor(std::uint32_t worker, Clock clock) const;

 private:
  void settle_trace();

  pb::LabCompute compute_;
  std::uint64_t seed_ = 0;
  std::int64_t batch_ = 1;
  std::vector<double> forward_;   // by layer
  std::vector<double> backward_;  // by layer
  double whole_forward_ = 0;
  double feed_ = 0;
  double trace_mean_ = 1;  // milliseconds
};

}  // namespace taut::lab
