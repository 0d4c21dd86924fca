#include "cli/views/net_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/views/draw.hpp"
#include "cli/views/net_view.hpp"
#include "worker/model/net_cost.hpp"

namespace taut::cli {
namespace {

/// Six columns, two spaces between them, within 100.
constexpr std::size_t kNameWidth = 28;
constexpr std::size_t kTypeWidth = 16;
constexpr std::size_t kShapeWidth = 18;

/// "1.82 G", "96", "3.1 M": three significant digits.
std::string short_count(std::uint64_t number) {
  constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P"};
  auto value = static_cast<double>(number);
  std::size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  if (unit == 0) return fmt::format("{}", number);
  return fmt::format("{:.{}f}{}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string tops_of(const model::Graph& graph, const model::Node& node) {
  if (node.tops.empty()) return "-";
  const std::string first = model::to_string(graph.blobs[node.tops[0]].shape);
  return node.tops.size() == 1 ? first : fmt::format("{} +{}", first, node.tops.size() - 1);
}

}  // namespace

std::vector<std::string> net_summary(const model::Graph& graph) {
  const model::NetCost cost = model::net_cost(graph);
  std::vector<Row> rows{{"layer", "type", "output", "parameters", "mult-adds", "memory"}};
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const model::Node& node = graph.nodes[i];
    const model::LayerCost& layer = cost.layers[i];
    rows.push_back(
        {fit_name(node.definition.name(), kNameWidth), fit_name(node.definition.type(), kTypeWidth),
         fit_name(tops_of(graph, node), kShapeWidth),
         layer.parameters == 0 ? "" : grouped(static_cast<std::int64_t>(layer.parameters)),
         layer.multiply_adds == 0 ? "" : short_count(layer.multiply_adds),
         layer.top_bytes == 0 ? "" : mebibytes(layer.top_bytes)});
  }
  std::vector<std::string> lines{
      fmt::format("{}, phase {}", titled(graph), pb::Phase_Name(graph.phase))};
  for (std::string& line : aligned(rows, {false, false, false, true, true, true})) {
    lines.push_back(std::move(line));
  }
  std::string statistics;
  if (cost.statistics > 0) {
    statistics = fmt::format(", and {} running statistics",
                             grouped(static_cast<std::int64_t>(cost.statistics)));
  }
  lines.push_back(fmt::format(
      "parameters: {}{}; {}", grouped(static_cast<std::int64_t>(cost.parameters)), statistics,
      counted(static_cast<std::int64_t>(graph.parameters.size()), "table")));
  lines.push_back(fmt::format("one forward pass: {} multiply-adds ({} FLOPs)",
                              short_count(cost.multiply_adds),
                              short_count(2 * cost.multiply_adds)));
  lines.push_back(
      fmt::format("memory, float32, without working space: {} for training, {} for "
                  "inference",
                  mebibytes(cost.training_bytes), mebibytes(cost.inference_bytes)));
  return lines;
}

std::string net_summary_json(const model::Graph& graph) {
  const model::NetCost cost = model::net_cost(graph);
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const model::Node& node = graph.nodes[i];
    nlohmann::ordered_json tops = nlohmann::ordered_json::array();
    for (const std::size_t top : node.tops) {
      tops.push_back({{"name", graph.blobs[top].name}, {"shape", graph.blobs[top].shape}});
    }
    layers.push_back({{"name", node.definition.name()},
                      {"type", node.definition.type()},
                      {"tops", tops},
                      {"parameters", cost.layers[i].parameters},
                      {"multiply_adds", cost.layers[i].multiply_adds},
                      {"top_bytes", cost.layers[i].top_bytes}});
  }
  const nlohmann::ordered_json summary{{"net", graph.name},
                                       {"phase", pb::Phase_Name(graph.phase)},
                                       {"layers", layers},
                                       {"parameters", cost.parameters},
                                       {"statistics", cost.statistics},
                                       {"multiply_adds", cost.multiply_adds},
                                       {"flops", 2 * cost.multiply_adds},
                                       {"training_bytes", cost.training_bytes},
                                       {"inference_bytes", cost.inference_bytes}};
  // Names are a file's content: bytes that are not UTF-8 become a mark.
  return summary.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace taut::cli
