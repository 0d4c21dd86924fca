#include "cli/sweep/metric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "cli/job_records.hpp"
#include "proto/config/job_words.hpp"
#include "worker/model/job/job_nets.hpp"

namespace taut::cli {
namespace {

constexpr const char* kAccuracyLayer = "Accuracy";

/// The numbers that a test net outputs, and whether an Accuracy layer makes them.
std::map<std::string, bool> outputs_of(const model::Graph& graph) {
  std::map<std::string, bool> outputs;
  for (const model::Node& node : graph.nodes) {
    const bool is_accuracy = node.definition.type() == kAccuracyLayer;
    for (std::size_t top = 0; top < node.tops.size(); ++top) {
      if (std::ranges::find(graph.outputs, node.tops[top]) == graph.outputs.end()) continue;
      const model::Blob& blob = graph.blobs[node.tops[top]];
      const std::uint64_t count = model::element_count(blob.shape);
      if (is_accuracy && top == 1) {
        for (std::uint64_t k = 0; k < count; ++k) {
          outputs[fmt::format("{}[{}]", blob.name, k)] = true;
        }
      } else if (count == 1 && !node.is_fed) {
        outputs[blob.name] = is_accuracy;
      }
    }
  }
  return outputs;
}

/// Records of a batch, from the first blob that is fed.
std::int64_t batch_of(const model::Graph& graph, const model::KnownRecords& known) {
  for (const model::Node& node : graph.nodes) {
    if (!node.is_fed || node.tops.empty()) continue;
    std::size_t axis = 0;
    if (!known.tests.empty()) {
      const auto fields = known.tests[0].find(node.definition.name());
      if (fields != known.tests[0].end() && !fields->second.empty()) {
        axis = fields->second[0].batch_axis;
      }
    }
    const model::Shape& shape = graph.blobs[node.tops[0]].shape;
    return axis < shape.size() ? shape[axis] : 0;
  }
  return 0;
}

}  // namespace

std::string SweepMetric::text(double value) const {
  return is_share ? fmt::format("{:.1f} %", 100 * value) : fmt::format("{:.4g}", value);
}

double SweepMetric::test_error(double value) const {
  if (!is_share || test_records <= 0 || value <= 0 || value >= 1) return 0;
  return std::sqrt(value * (1 - value) / static_cast<double>(test_records));
}

Result<SweepMetric> metric_of(const std::string& name, const pb::Job& job) {
  const model::KnownRecords known = records_of(job).records;
  const model::NetChoice test(pb::TEST);
  TAUT_TRY(const model::Graph graph,
           model::build_graph(model::net_of(job, test), known.graph_options(test)));
  const std::map<std::string, bool> outputs = outputs_of(graph);
  SweepMetric metric;
  metric.name = name;
  metric.test_records = batch_of(graph, known) * job.solver_param().test_iter(0);
  const bool any_accuracy = std::ranges::any_of(
      graph.nodes, [](const auto& node) { return node.definition.type() == kAccuracyLayer; });
  const bool has_perplexity = words_of(job).has_perplexity;
  const auto output = outputs.find(name);
  const bool is_mean = name == "loss" || (name == "perplexity" && has_perplexity);
  if (name == "accuracy" && any_accuracy) return metric;
  if (is_mean || output != outputs.end()) {
    metric.is_share = !is_mean && output->second;
    metric.higher_is_better = metric.is_share;
    return metric;
  }
  std::vector<std::string> given;
  if (any_accuracy) given.emplace_back("accuracy");
  given.emplace_back("loss");
  if (has_perplexity) given.emplace_back("perplexity");
  for (const auto& [other, is_accuracy] : outputs) {
    if (std::ranges::find(given, other) == given.end()) given.push_back(other);
  }
  std::string list;
  constexpr std::size_t kShown = 12;
  for (std::size_t i = 0; i < std::min(given.size(), kShown); ++i) {
    list += (i == 0 ? "" : ", ") + given[i];
  }
  if (given.size() > kShown) list += ", ...";
  return invalid(
      fmt::format("metric: the job's tests give no \"{}\"; choose one of: {}", name, list));
}

}  // namespace taut::cli
