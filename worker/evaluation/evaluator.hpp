#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/cache/parameter_cache.hpp"
#include "worker/data/data_loader.hpp"
#include "worker/engine/backend.hpp"
#include "worker/evaluation/hdf5_output.hpp"
#include "worker/layers/net.hpp"
#include "worker/layers/output_means.hpp"
#include "worker/pace.hpp"
#include "worker/progress.hpp"
#include "worker/replica.hpp"

namespace taut::worker {

/// One test phase: its net over the test data, with a snapshot of the parameters.
/// Thread    the compute thread
class Evaluator {
 public:
  /// iterations  batches of one test
  /// test        the index of the job's test phase
  /// submission  as of Hdf5Output
  /// Errors      invalid: a test net that has other parameters than the training net, or does not
  ///             fit in the device's budget
  [[nodiscard]] static Result<std::unique_ptr<Evaluator>> create(
      const JobAssets& assets, Backend& backend, int iterations, std::size_t test = 0,
      Pace& pace = machine_pace(), std::optional<std::uint64_t> submission = std::nullopt);

  /// Runs one test phase with the newest values; the caller sets the result's clock.
  /// Errors    closed: `stop` was set (it is checked before each batch)
  [[nodiscard]] Result<TestResult> run(ParameterCache& cache, const std::atomic<bool>& stop);
  /// Runs one test phase with the initial values of the job's tables.
  /// Errors    as run()
  [[nodiscard]] Result<TestResult> run_initial(const std::atomic<bool>& stop);

 private:
  struct Parameter {
    TableId table;  // in the training net
    DeviceBuffer values;
    std::optional<std::size_t> fed;  // of a table by rows: the blob with the rows' numbers
  };
  Evaluator(std::size_t test, const model::Graph& graph, Backend& backend,
            std::optional<std::uint64_t> submission);
  /// The sums over the batches so far.
  struct Sums {
    double loss = 0;
    OutputMeans outputs;
  };
  /// Reads a table's values, or for a table by rows those of the given rows.
  using ReadTable = std::function<Result<void>(TableId table, std::span<const std::uint64_t> rows,
                                               std::span<float> into)>;
  [[nodiscard]] Result<TestResult> run(const ReadTable& read, const std::atomic<bool>& stop);
  [[nodiscard]] Result<void> bring(const Parameter& parameter, std::span<const std::uint64_t> rows,
                                   const ReadTable& read);
  [[nodiscard]] Result<void> bring_rows(const data::Batch& batch, const ReadTable& read);
  void compute(std::span<const std::span<const float>> batch, Sums& sums);

  const std::size_t test_;
  const JobAssets* assets_ = nullptr;
  Backend* backend_;
  Pace* pace_ = nullptr;
  std::int64_t batch_ = 0;  // records
  // The device copies from it at full speed; nullptr: the device's memory is the host's.
  std::unique_ptr<std::pmr::memory_resource> host_memory_;
  std::pmr::vector<float> snapshot_;  // copied to the device next
  std::unique_ptr<Net> net_;
  std::unique_ptr<Stream> stream_;
  std::vector<Parameter> parameters_;  // by the test net's numbering
  std::vector<TableSpec> tables_;      // of the training net, as servers have them
  int iterations_ = 0;
  std::string accuracy_;  // the output that is the accuracy; "" if none
  std::string cycle_;
  Hdf5Output files_;
};

}  // namespace taut::worker
