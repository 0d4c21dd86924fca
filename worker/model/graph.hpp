#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/record_shape.hpp"
#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "proto/net.pb.h"

namespace taut::model {

/// Extents, outermost first; images are (N, C, H, W).
using Shape = std::vector<std::int64_t>;

/// The number of elements of a shape.
[[nodiscard]] std::uint64_t element_count(const Shape& shape);
/// "64x1x28x28", as in messages.
[[nodiscard]] std::string to_string(const Shape& shape);

/// A value that flows between layers.
struct Blob {
  std::string name;
  Shape shape;
  bool needs_gradient = false;  // it depends on a parameter, and a loss depends on it
};

/// One layer of one phase, in an order in which every bottom is produced before it is used.
struct Node {
  pb::LayerParameter definition;
  std::vector<std::size_t> bottoms;     // into Graph::blobs
  std::vector<std::size_t> tops;        // into Graph::blobs; in place: the same as the bottom
  std::vector<std::size_t> parameters;  // into Graph::parameters; weights first
  std::vector<float> loss_weights;      // one for each top; 0 if it is not a loss
  bool is_loss = false;  // its type applies its weight itself; else it is the top's gradient
  bool is_fed = false;   // its tops are written from outside
  std::vector<bool> passes_gradient;  // for each bottom: the type and propagate_down allow it
  bool needs_backward = false;
};

/// A net of one phase, with all shapes. It holds no memory and is independent of devices.
struct Graph {
  std::string name;
  pb::Phase phase = pb::TRAIN;
  std::vector<Blob> blobs;
  std::vector<Node> nodes;
  std::vector<TableSpec> parameters;  // in order of first use by the forward pass
  std::vector<std::size_t> outputs;   // blobs that no layer reads: losses, accuracies
};

struct GraphOptions {
  pb::Phase phase = pb::TRAIN;
  RecordShape record = {};                          // of data layers that `records` does not name
  std::map<std::string, RecordShape> records = {};  // of a data layer, by the layer's name
  std::int64_t batch = 0;          // overrides the data layers' batch_size if above 0
  std::int64_t batch_divisor = 1;  // otherwise divides it: the members that share a batch
};

/// Builds a model for one phase: the layers that take part, their connections, shapes, and
/// parameters with their fillers.
/// Errors    invalid: names the layer, and the blob, field or shape at fault
[[nodiscard]] Result<Graph> build_graph(const pb::NetParameter& net, const GraphOptions& options);

/// The blobs that are written from outside, in the order of their layers and tops.
[[nodiscard]] std::vector<std::size_t> fed_blobs(const Graph& graph);

/// Whether a blob has cont markers that can start a sequence only at a batch's first step: a
/// text's, if no layer overwrites them.
[[nodiscard]] bool begins_at_start(const Graph& graph, std::size_t blob);

/// The permitted labels of a blob.
struct LabelLimits {
  std::int64_t classes = 0;             // labels must be less; 0: no layer reads it as labels
  std::optional<std::int64_t> ignored;  // a label that is permitted outside this range
};

/// The smallest number of classes of all layers that read the blob's numbers as labels.
[[nodiscard]] LabelLimits label_limits(const Graph& graph, std::size_t blob);

}  // namespace taut::model
