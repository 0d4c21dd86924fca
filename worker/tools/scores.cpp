#include "worker/tools/scores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace taut::worker {
namespace {

struct Place {
  std::size_t blob = 0;
  bool is_probability = false;
};

std::optional<Place> place_of(const model::Graph& graph, const std::string& requested) {
  std::optional<Place> found;
  for (const model::Node& node : graph.nodes) {
    const std::string& type = node.definition.type();
    if (requested.empty()) {
      if (type == "SoftmaxWithLoss") found = {node.bottoms[0], false};
      if (type == "Softmax") found = {node.tops[0], true};
      continue;
    }
    for (const std::size_t top : node.tops) {
      if (graph.blobs[top].name == requested) found = {top, type == "Softmax"};
    }
  }
  return found;
}

}  // namespace

Result<ScoresBlob> find_scores(const model::Graph& graph, const std::string& requested) {
  const std::optional<Place> place = place_of(graph, requested);
  if (!place) {
    return invalid(
        requested.empty()
            ? std::string("the net has no SoftmaxWithLoss and no Softmax: name the blob with the "
                          "scores with --blob")
            : fmt::format("the net's TEST phase has no blob \"{}\"", requested));
  }
  const model::Blob& blob = graph.blobs[place->blob];
  const std::uint64_t count = model::element_count(blob.shape);
  const std::uint64_t items = blob.shape.empty() ? 0 : static_cast<std::uint64_t>(blob.shape[0]);
  const std::uint64_t classes =
      blob.shape.size() < 2 ? 0 : static_cast<std::uint64_t>(blob.shape[1]);
  if (classes < 2 || items * classes != count) {
    return invalid(fmt::format("blob \"{}\" has shape {}, and scores are items x classes",
                               blob.name, model::to_string(blob.shape)));
  }
  return ScoresBlob{blob.name, items, classes, place->is_probability};
}

std::vector<RankedClass> rank_classes(std::span<const float> scores, bool is_probability,
                                      std::size_t top) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  top = std::min(top, order.size());
  // NaN scores come last.
  const auto value = [&](std::size_t i) { return std::isnan(scores[i]) ? -INFINITY : scores[i]; };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      return value(a) != value(b) ? value(a) > value(b) : a < b;
                    });
  double sum = 1;
  const double best = order.empty() ? 0 : double{scores[order[0]]};
  if (!is_probability) {
    sum = 0;
    for (const float score : scores) sum += std::exp(double{score} - best);
  }
  std::vector<RankedClass> ranked;
  for (std::size_t i = 0; i < top; ++i) {
    const double score = scores[order[i]];
    ranked.push_back({order[i], is_probability ? score : std::exp(score - best) / sum});
  }
  return ranked;
}

}  // namespace taut::worker
