#include "worker/evaluation/evaluator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "worker/cache/initial_values.hpp"
#include "worker/device/batch_memory.hpp"

namespace taut::worker {
namespace {

constexpr Duration kDataWait{60'000'000};

/// The output that is a test's accuracy, "" if none. If there are several, the last one with the
/// smallest top_k: a net's own scores follow its auxiliary classifiers, as in GoogLeNet.
std::string accuracy_of(const model::Graph& graph) {
  std::string found;
  std::uint32_t min_guesses = 0;
  for (const model::Node& node : graph.nodes) {
    if (node.definition.type() != "Accuracy") continue;
    if (std::ranges::find(graph.outputs, node.tops[0]) == graph.outputs.end()) continue;
    const std::uint32_t guesses = node.definition.accuracy_param().top_k();
    if (!found.empty() && guesses > min_guesses) continue;
    found = graph.blobs[node.tops[0]].name;
    min_guesses = guesses;
  }
  return found;
}

/// Whether servers would keep both tables in the same way. A test's batches may name more rows.
bool are_kept_alike(const TableSpec& trained, const TableSpec& tested) {
  if (!trained.rows || !tested.rows) return trained.rows.has_value() == tested.rows.has_value();
  RowTable rows = *tested.rows;
  rows.clock_rows = trained.rows->clock_rows;
  return *trained.rows == rows;
}

}  // namespace

Evaluator::Evaluator(std::size_t test, const model::Graph& graph, Backend& backend,
                     std::optional<std::uint64_t> submission)
    : test_(test),
      backend_(&backend),
      host_memory_(backend.shares_host_memory() ? nullptr : std::make_unique<BatchMemory>(backend)),
      snapshot_(host_memory_ ? host_memory_.get() : std::pmr::get_default_resource()),
      files_(graph, submission) {}

Result<std::unique_ptr<Evaluator>> Evaluator::create(const JobAssets& assets, Backend& backend,
                                                     int iterations, std::size_t test, Pace& pace,
                                                     std::optional<std::uint64_t> submission) {
  const model::Graph& graph = *assets.test_graph(test);
  std::unique_ptr<Evaluator> evaluator(new Evaluator(test, graph, backend, submission));
  evaluator->tables_ = model::served_tables(assets.train_graph());
  const std::vector<TableSpec> served = model::served_tables(graph);
  for (const TableSpec& table : graph.parameters) {
    const auto& trained = evaluator->tables_;
    const auto found = std::ranges::find(trained, table.name, &TableSpec::name);
    if (found != trained.end() && !are_kept_alike(*found, table)) {
      return invalid(fmt::format(
          "the test net's parameter \"{}\" {}; say the same as in training", table.name,
          found->rows && table.rows ? "has another evict or other buckets than in training"
          : table.rows              ? "is kept by rows, and in training it is not"
                                    : "is not kept by rows, and in training it is"));
    }
    if (found == trained.end() || found->shape != served[table.id.value()].shape) {
      return invalid(fmt::format(
          "the test net's parameter \"{}\" {}", table.name,
          found == trained.end() ? "is not in the training net" : "has another shape in training"));
    }
    Parameter parameter;
    parameter.table = found->id;
    parameter.values =
        backend.allocate_floats(table.count(), BufferKind::kParameter, "parameter " + table.name);
    evaluator->parameters_.push_back(std::move(parameter));
  }
  for (const model::RowParameter& one : model::row_parameters(graph)) {
    evaluator->parameters_[one.parameter].fed = one.fed;
  }
  evaluator->assets_ = &assets;
  evaluator->pace_ = &pace;
  evaluator->batch_ = assets.test_batch(test);
  evaluator->accuracy_ = accuracy_of(graph);
  evaluator->net_ = std::make_unique<Net>(graph, backend, Net::Options{});
  evaluator->stream_ = backend.make_stream();
  evaluator->iterations_ = iterations;
  evaluator->cycle_ = fmt::format("testing {}", test);
  for (std::size_t i = 0; i < evaluator->parameters_.size(); ++i) {
    evaluator->net_->bind_value(i, evaluator->parameters_[i].values.as<float>());
  }
  TAUT_TRY(backend.dry_run(*evaluator->stream_, evaluator->cycle_, [&]() -> Result<void> {
    const std::vector<std::span<const float>> nothing(evaluator->net_->fed_count());
    Sums sums;
    evaluator->compute(nothing, sums);
    return ok();
  }));
  return evaluator;
}

/// Runs one batch and adds its outputs.
void Evaluator::compute(std::span<const std::span<const float>> batch, Sums& sums) {
  net_->set_batch(*stream_, batch);
  for (std::size_t layer = 0; layer < net_->layer_count(); ++layer) {
    net_->forward(layer, *stream_, Clock(0));
  }
  sums.loss += net_->loss(*stream_) / iterations_;
  sums.outputs.add(net_->outputs(*stream_));
  files_.read(*net_, *stream_);
}

Result<TestResult> Evaluator::run(ParameterCache& cache, const std::atomic<bool>& stop) {
  const auto read = [this, &cache](TableId table, std::span<const std::uint64_t> rows,
                                   std::span<float> into) -> Result<void> {
    const bool by_rows = tables_[table.value()].rows.has_value();
    TAUT_TRY(by_rows ? cache.snapshot_rows(table, rows, into) : cache.snapshot(table, into));
    return ok();
  };
  return run(read, stop);
}

Result<TestResult> Evaluator::run_initial(const std::atomic<bool>& stop) {
  const auto read = [this](TableId id, std::span<const std::uint64_t> rows, std::span<float> into) {
    const TableSpec& table = tables_[id.value()];
    const std::uint64_t seed = assets_->job().seed();
    return table.rows ? read_initial_rows(table, seed, rows, into)
                      : read_initial_values(table, seed, into);
  };
  return run(read, stop);
}

/// Reads a parameter's values, or its rows, onto the device.
Result<void> Evaluator::bring(const Parameter& parameter, std::span<const std::uint64_t> rows,
                              const ReadTable& read) {
  const DeviceSpan<float> values = parameter.values.as<float>();
  const std::size_t count =
      parameter.fed ? rows.size() * tables_[parameter.table.value()].width() : values.size();
  snapshot_.resize(count);
  TAUT_TRY(read(parameter.table, rows, snapshot_));
  backend_->copy_to_device(*stream_, snapshot_, values.subspan(0, count));
  stream_->finish();
  return ok();
}

/// Reads the rows that a batch names.
Result<void> Evaluator::bring_rows(const data::Batch& batch, const ReadTable& read) {
  for (const Parameter& parameter : parameters_) {
    if (!parameter.fed) continue;
    TAUT_TRY(bring(parameter, batch.rows[*parameter.fed], read));
  }
  return ok();
}

Result<TestResult> Evaluator::run(const ReadTable& read, const std::atomic<bool>& stop) {
  for (const Parameter& parameter : parameters_) {
    if (parameter.fed) continue;
    TAUT_TRY(bring(parameter, {}, read));
  }
  // A new loader, so that every test reads the same records.
  TAUT_TRY(auto loader, assets_->test_loader(test_, snapshot_.get_allocator().resource()));
  Sums sums;
  TAUT_TRY(files_.begin(static_cast<std::uint64_t>(iterations_)));
  for (int i = 0; i < iterations_; ++i) {
    if (stop) return make_error(ErrorCode::kClosed, "stopped during a test");
    TAUT_TRY(data::Batch batch, loader->next(kDataWait));
    TAUT_TRY(bring_rows(batch, read));
    backend_->begin_cycle(*stream_, cycle_);
    compute(batch.spans(), sums);
    backend_->end_cycle();
    pace_->tested(batch_);
    loader->recycle(std::move(batch));
    TAUT_TRY(files_.write());
  }
  TAUT_TRY(files_.finish());
  TestResult result;
  result.loss = sums.loss;
  result.outputs = sums.outputs.means();
  for (const OutputMeans::Mean& mean : result.outputs) {
    if (!accuracy_.empty() && mean.name == accuracy_) result.accuracy = mean.value;
  }
  return result;
}

}  // namespace taut::worker
