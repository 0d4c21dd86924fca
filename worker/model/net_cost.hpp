#pragma once

#include <cstdint>
#include <vector>

#include "worker/model/graph.hpp"

namespace taut::model {

/// The cost of one layer of a graph, for one batch.
struct LayerCost {
  /// Numbers, without those shared with an earlier layer; of a table by rows those of all rows.
  std::uint64_t parameters = 0;
  std::uint64_t statistics = 0;     // a BatchNorm's running statistics, which are not learned
  std::uint64_t multiply_adds = 0;  // of one forward pass; see net_cost
  std::uint64_t top_bytes = 0;      // blobs that it adds, without those it overwrites
};

struct NetCost {
  std::vector<LayerCost> layers;  // as Graph::nodes
  std::uint64_t parameters = 0;
  std::uint64_t statistics = 0;
  std::uint64_t multiply_adds = 0;
  /// The memory in use: every blob and every parameter, float32; for training also a gradient for
  /// each blob that needs one and for each trained parameter; a table by rows counts with the rows
  /// that a batch names. The workspace of the device's libraries and the update rule's state at the
  /// server are not included.
  std::uint64_t inference_bytes = 0;
  std::uint64_t training_bytes = 0;
};

/// Counts as papers do: a multiplication and an addition of a matrix product or a convolution count
/// as one, for InnerProduct, Convolution, Deconvolution, recurrent layers and attention; biases,
/// activations, pooling and normalisations are not counted.
[[nodiscard]] NetCost net_cost(const Graph& graph);

}  // namespace taut::model
