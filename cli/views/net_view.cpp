#include "cli/views/net_view.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "cli/views/draw.hpp"
#include "worker/model/row_parameters.hpp"

namespace taut::cli {
namespace {

/// tables  of the graph, as servers have them
std::uint64_t parameters_of(const std::vector<TableSpec>& tables, const model::Node& node) {
  std::uint64_t count = 0;
  for (const std::size_t parameter : node.parameters) count += tables[parameter].count();
  return count;
}

}  // namespace

std::string titled(const model::Graph& graph) {
  return graph.name.empty() ? "unnamed net" : "net " + graph.name;
}

std::vector<std::string> net_view(const model::Graph& graph) {
  const std::vector<TableSpec> tables = model::served_tables(graph);
  std::vector<Row> rows;
  for (const model::Node& node : graph.nodes) {
    std::string tops;
    for (const std::size_t top : node.tops) {
      const model::Blob& blob = graph.blobs[top];
      tops +=
          fmt::format("{}{} {}", tops.empty() ? "" : ", ", blob.name, model::to_string(blob.shape));
    }
    const std::uint64_t parameters = parameters_of(tables, node);
    rows.push_back({"    " + node.definition.name(), node.definition.type(), tops,
                    parameters == 0 ? "" : grouped(static_cast<std::int64_t>(parameters))});
  }
  std::uint64_t total = 0;
  for (const TableSpec& table : tables) total += table.count();
  std::vector<std::string> lines{
      fmt::format("  {}, phase {}: {} layers, {} parameters in {} tables", titled(graph),
                  pb::Phase_Name(graph.phase), graph.nodes.size(),
                  grouped(static_cast<std::int64_t>(total)), graph.parameters.size())};
  const auto table = aligned(rows, {false, false, false, true});
  lines.insert(lines.end(), table.begin(), table.end());
  return lines;
}

}  // namespace taut::cli
