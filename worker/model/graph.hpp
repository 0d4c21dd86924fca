#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "proto/net.pb.h"

namespace taut::model {

/// Extents, outermost first; images are (N, C, H, W).
using Shape = std::vector<std::int64_t>;

/// Elements of a shape.
[[nodiscard]] std::uint64_t element_count(const Shape& shape);
/// "64x1x28x28", as messages print it.
[[nodiscard]] std::string to_string(const Shape& shape);

/// A value that flows between layers.
struct Blob {
  std::string name;
  Shape shape;
  bool needs_gradient = false;  // some parameter lies before it and a loss after it
};

/// One layer of one phase, in an order in which every bottom is made before it is used.
struct Node {
  pb::LayerParameter definition;
  std::vector<std::size_t> bottoms;     // into Graph::blobs
  std::vector<std::size_t> tops;        // into Graph::blobs; in place: the same as the bottom
  std::vector<std::size_t> parameters;  // into Graph::parameters; weights first
  std::vector<float> loss_weights;      // one for each top; zero where it is no loss
  bool needs_backward = false;
};

/// A net of one phase, with every shape settled. Holds no memory and knows no device.
struct Graph {
  std::string name;
  pb::Phase phase = pb::TRAIN;
  std::vector<Blob> blobs;
  std::vector<Node> nodes;
  std::vector<TableSpec> parameters;  // in order of first use by the forward pass
  std::vector<std::size_t> outputs;   // blobs that nobody consumes: losses, accuracies
};

/// What one record of the data set holds.
struct RecordShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

struct GraphOptions {
  pb::Phase phase = pb::TRAIN;
  RecordShape record;      // of the data set that stands behind a Data layer
  std::int64_t batch = 0;  // overrides the Data layers' batch_size where above 0
};

/// Settles a model definition for one phase: which layers take part, who feeds whom, shapes,
/// parameters with their fillers.
/// Errors    invalid: names the layer, and the blob, field or shape that cannot work
[[nodiscard]] Result<Graph> build_graph(const pb::NetParameter& net, const GraphOptions& options);

/// What every label must stay below: the fewest classes that a layer with labels tells apart; 0
/// where no layer reads labels.
[[nodiscard]] std::int64_t label_classes(const Graph& graph);

}  // namespace taut::model
