#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/files/safetensors.hpp"
#include "worker/tools/trained_net.hpp"

namespace taut::worker {
namespace {

bool measures(const model::Node& node) {
  const std::string& type = node.definition.type();
  return node.is_loss || type == "Accuracy" || type == "Silence" || type == "HDF5Output";
}

/// The blobs that are fed, and those that only measuring layers read: scores, for example, in front
/// of a loss. A loss's own tops are not outputs.
std::vector<std::size_t> ends_of(const model::Graph& graph) {
  std::vector<bool> is_read(graph.blobs.size());
  std::vector<bool> is_computed(graph.blobs.size());
  for (const model::Node& node : graph.nodes) {
    if (measures(node)) continue;
    for (const std::size_t bottom : node.bottoms) is_read[bottom] = true;
    // In place, the top is a different value from the bottom.
    for (const std::size_t top : node.tops) {
      is_read[top] = false;
      is_computed[top] = true;
    }
  }
  std::vector<std::size_t> ends = model::fed_blobs(graph);
  for (std::size_t blob = 0; blob < graph.blobs.size(); ++blob) {
    if (!is_computed[blob] || is_read[blob] || std::ranges::find(ends, blob) != ends.end()) {
      continue;
    }
    ends.push_back(blob);
  }
  return ends;
}

/// The indices of the named blobs; the last one if several have the same name.
Result<std::vector<std::size_t>> named(const model::Graph& graph, const pb::ToolRequest& request) {
  std::vector<std::size_t> places;
  for (const std::string& name : request.blobs()) {
    const auto found = std::find_if(graph.blobs.rbegin(), graph.blobs.rend(),
                                    [&name](const model::Blob& blob) { return blob.name == name; });
    if (found == graph.blobs.rend()) {
      return invalid(
          fmt::format("the net's TEST phase has no blob \"{}\"; tautline summary lists "
                      "them",
                      name));
    }
    places.push_back(static_cast<std::size_t>(graph.blobs.rend() - found) - 1);
  }
  return places;
}

Result<void> write(const model::Graph& graph, const std::vector<std::size_t>& blobs,
                   TrainedNet& net, const std::string& path) {
  std::vector<safetensors::TensorSpec> specs;
  for (const std::size_t blob : blobs) {
    const model::Blob& one = graph.blobs[blob];
    specs.push_back({one.name, {one.shape.begin(), one.shape.end()}});
  }
  TAUT_TRY(auto writer, safetensors::Writer::create(path, specs, {}));
  std::vector<float> values;
  for (const std::size_t blob : blobs) {
    values.resize(static_cast<std::size_t>(model::element_count(graph.blobs[blob].shape)));
    net.read_blob(blob, values);
    TAUT_TRY(writer.append(values));
  }
  return writer.finish();
}

}  // namespace

Result<void> save_outputs(const pb::ToolRequest& request, Backend& backend) {
  TAUT_TRY(const OpenedModel opened, open_model(request));
  TAUT_TRY(const FedGraph fed, open_phase(opened.job, pb::TEST, {.batch = request.batch()}));
  TAUT_TRY(std::vector<std::size_t> blobs, named(fed.graph, request));
  if (blobs.empty()) blobs = ends_of(fed.graph);
  TAUT_TRY(const model::ReadTable values, opened.saved.tables_of(fed.graph));
  TAUT_TRY(TrainedNet net, TrainedNet::create(fed.graph, values, backend));
  data::FeedOptions feed;
  feed.part = data::Part::kTest;
  feed.seed = opened.job.seed();
  TAUT_TRY(const auto loader, start_loader(fed, feed, {}));
  TAUT_TRY(const data::Batch batch, loader->next(kBatchWait));
  net.forward(batch);
  TAUT_TRY(write(fed.graph, blobs, net, request.output()));
  for (const std::size_t blob : blobs) {
    fmt::print("{} {}\n", fed.graph.blobs[blob].name,
               model::to_string(fed.graph.blobs[blob].shape));
  }
  return ok();
}

}  // namespace taut::worker
