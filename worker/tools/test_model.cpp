#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "worker/layers/output_means.hpp"
#include "worker/tools/trained_net.hpp"

namespace taut::worker {
namespace {

/// The number of batches in one pass over the data. Errors: a text, which has no last batch.
Result<std::uint64_t> batches_of(const FedGraph& fed, const pb::ToolRequest& request) {
  if (request.iterations() > 0) return std::uint64_t{request.iterations()};
  for (const model::Node& node : fed.graph.nodes) {
    const auto source = fed.sources.find(node.definition.name());
    if (!node.is_fed || source == fed.sources.end()) continue;
    if (node.definition.data_param().backend() == pb::DataParameter::TEXT) break;
    const auto batch = static_cast<std::uint64_t>(fed.batch());
    if (source->second->size() >= batch) return source->second->size() / batch;
    return invalid(
        fmt::format("the data has {} records, and a batch has {}: give a smaller --batch",
                    source->second->size(), batch));
  }
  return invalid("the net is fed a text or fillers: give the number of batches with --iterations");
}

void print(const std::vector<OutputMeans::Mean>& means, std::uint64_t batches,
           std::uint64_t records, bool json) {
  if (json) {
    nlohmann::ordered_json out{{"batches", batches}, {"records", records}};
    // NaN, such as a class without a label, becomes null.
    for (const OutputMeans::Mean& mean : means) out["outputs"][mean.name] = mean.value;
    fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print("{} records in {} batches\n", records, batches);
  for (const OutputMeans::Mean& mean : means) {
    fmt::print("{}: {}\n", mean.name, mean.is_known ? fmt::format("{:.6f}", mean.value) : "-");
  }
}

}  // namespace

Result<void> test_model(const pb::ToolRequest& request, Backend& backend) {
  TAUT_TRY(const OpenedModel opened, open_model(request));
  TAUT_TRY(const FedGraph fed, open_phase(opened.job, pb::TEST, {.batch = request.batch()}));
  TAUT_TRY(const std::uint64_t batches, batches_of(fed, request));
  TAUT_TRY(const model::ReadTable values, opened.saved.tables_of(fed.graph));
  TAUT_TRY(TrainedNet net, TrainedNet::create(fed.graph, values, backend));
  data::FeedOptions feed;
  feed.part = data::Part::kTest;
  feed.seed = opened.job.seed();
  TAUT_TRY(const auto loader, start_loader(fed, feed, {}));
  OutputMeans means;
  Hdf5Output files(fed.graph);
  TAUT_TRY(files.begin(batches));
  for (std::uint64_t i = 0; i < batches; ++i) {
    TAUT_TRY(data::Batch batch, loader->next(kBatchWait));
    net.forward(batch);
    loader->recycle(std::move(batch));
    const std::vector<Net::Output> outputs = net.outputs();
    if (outputs.empty() && files.empty()) {
      return invalid(
          "the net's TEST phase has no output that is a number: add an Accuracy, a loss or an "
          "HDF5Output layer");
    }
    means.add(outputs);
    net.read_outputs(files);
    TAUT_TRY(files.write());
  }
  TAUT_TRY(files.finish());
  print(means.means(), batches, batches * static_cast<std::uint64_t>(fed.batch()), request.json());
  return ok();
}

}  // namespace taut::worker
