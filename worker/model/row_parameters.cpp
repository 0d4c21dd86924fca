#include "worker/model/row_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace taut::model {
namespace {

bool is_by_rows(const Node& node) {
  return node.definition.type() == "Embed" && node.definition.embed_param().by_rows();
}

bool reads(const Node& node, std::size_t blob) {
  return std::ranges::find(node.bottoms, blob) != node.bottoms.end();
}

}  // namespace

std::vector<RowParameter> row_parameters(const Graph& graph) {
  const std::vector<std::size_t> fed = fed_blobs(graph);
  std::vector<RowParameter> found;
  for (const Node& node : graph.nodes) {
    if (!is_by_rows(node)) continue;
    const auto place = std::ranges::find(fed, node.bottoms[0]);
    found.push_back({.parameter = node.parameters[0],
                     .fed = static_cast<std::size_t>(place - fed.begin()),
                     .rows = node.definition.embed_param().input_dim(),
                     .layer = node.definition.name()});
  }
  return found;
}

Result<void> check_row_parameters(const Graph& graph) {
  const std::vector<std::size_t> fed = fed_blobs(graph);
  for (const Node& node : graph.nodes) {
    if (!is_by_rows(node)) continue;
    const std::size_t numbers = node.bottoms[0];
    const std::string& name = node.definition.name();
    if (std::ranges::find(fed, numbers) == fed.end()) {
      return invalid(fmt::format(
          "layer \"{}\" (Embed): embed_param.by_rows requires a top of a data layer as its bottom, "
          "and \"{}\" is computed; connect the two, or omit by_rows",
          name, graph.blobs[numbers].name));
    }
    for (const Node& other : graph.nodes) {
      if (!reads(other, numbers) || is_by_rows(other)) continue;
      return invalid(fmt::format(
          "layer \"{}\" ({}) reads \"{}\", whose numbers name the rows of layer \"{}\" "
          "(embed_param.by_rows); only such layers can read them: give it another top of the data "
          "layer",
          other.definition.name(), other.definition.type(), graph.blobs[numbers].name, name));
    }
  }
  return ok();
}

std::vector<TableSpec> served_tables(const Graph& graph) {
  std::vector<TableSpec> tables = graph.parameters;
  for (const RowParameter& one : row_parameters(graph)) {
    TableSpec& table = tables[one.parameter];
    table.rows->clock_rows = static_cast<std::uint64_t>(table.shape[0]);
    table.shape[0] = static_cast<std::int64_t>(one.rows);
  }
  return tables;
}

std::map<TableId, std::size_t> batch_rows(const Graph& graph) {
  std::map<TableId, std::size_t> rows;
  for (const TableSpec& table : graph.parameters) {
    if (table.rows) rows[table.id] = static_cast<std::size_t>(table.shape[0]);
  }
  return rows;
}

}  // namespace taut::model
