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

/// A parameter that is kept by rows at the servers. In the graph it has the maximum number of rows
/// that a batch names: the net computes with those, and reads indices among them instead of row
/// numbers.
struct RowParameter {
  std::size_t parameter = 0;  // into Graph::parameters
  std::size_t fed = 0;        // into fed_blobs(): the blob of the rows' numbers
  std::uint64_t rows = 0;     // of the whole table
  std::string layer;          // the layer that it belongs to
};

/// The parameters that are kept by rows, in the order of the graph's parameters.
[[nodiscard]] std::vector<RowParameter> row_parameters(const Graph& graph);

/// Errors    invalid: row numbers that no data layer feeds, or that another kind of layer also
///           reads; names the layer
[[nodiscard]] Result<void> check_row_parameters(const Graph& graph);

/// The graph's parameters as the servers have them, that is with all rows of those by rows.
[[nodiscard]] std::vector<TableSpec> served_tables(const Graph& graph);
/// For each parameter by rows, the maximum number of rows that a batch names.
[[nodiscard]] std::map<TableId, std::size_t> batch_rows(const Graph& graph);

}  // namespace taut::model
