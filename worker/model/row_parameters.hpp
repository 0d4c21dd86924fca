#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "worker/model/graph.hpp"

namespace taut::model {

/// A parameter that is kept by rows at the servers. In the graph it has as many rows as a batch
/// names at most: the net computes with those, and reads their places among them instead of their
/// numbers.
struct RowParameter {
  std::size_t parameter = 0;  // into Graph::parameters
  std::size_t fed = 0;        // into fed_blobs(): the blob of the rows' numbers
  std::uint64_t rows = 0;     // of the whole table
  std::string layer;          // that it belongs to
};

/// In the order of the graph's parameters.
[[nodiscard]] std::vector<RowParameter> row_parameters(const Graph& graph);

/// Errors    invalid: numbers of rows that no data layer feeds, or that another kind of layer reads
///           too; names the layer
[[nodiscard]] Result<void> check_row_parameters(const Graph& graph);

/// The graph's parameters as servers have them: those by rows with all of their rows.
[[nodiscard]] std::vector<TableSpec> served_tables(const Graph& graph);
/// How many rows a batch names at most, of each parameter by rows.
[[nodiscard]] std::map<TableId, std::size_t> batch_rows(const Graph& graph);

}  // namespace taut::model
