#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/backend/backend.hpp"
#include "worker/cache/parameter_cache.hpp"
#include "worker/data/data_loader.hpp"
#include "worker/layers/net.hpp"
#include "worker/layers/output_means.hpp"
#include "worker/progress.hpp"
#include "worker/replica.hpp"

namespace taut::worker {

/// One test phase: its net over the test data, with a snapshot of the parameters.
/// Thread    the compute thread
class Evaluator {
 public:
  /// iterations  batches of one test
  /// test        which of the job's test phases
  /// Errors      invalid: a test net whose parameters are not those of the training net, or that does
  ///             not fit in the device's budget
  [[nodiscard]] static Result<std::unique_ptr<Evaluator>> create(const JobAssets& assets,
                                                                 Backend& backend, int iterations,
                                                                 std::size_t test = 0);

  /// One test phase; the result's clock is left to the caller.
  [[nodiscard]] Result<TestResult> run(ParameterCache& cache);

 private:
  struct Parameter {
    TableId table;  // in the training net
    DeviceBuffer values;
  };
  explicit Evaluator(std::size_t test) : test_(test) {}
  /// Over the batches so far.
  struct Sums {
    double loss = 0;
    OutputMeans outputs;
  };
  void compute(std::span<const std::span<const float>> batch, Sums& sums);

  const std::size_t test_;
  const JobAssets* assets_ = nullptr;
  Backend* backend_ = nullptr;
  std::unique_ptr<Net> net_;
  std::unique_ptr<Stream> stream_;
  std::vector<Parameter> parameters_;  // by the test net's numbering
  std::vector<float> snapshot_;        // on its way to the device
  int iterations_ = 0;
  std::string accuracy_;  // the output that is the accuracy; "": none
  std::string cycle_;
};

}  // namespace taut::worker
