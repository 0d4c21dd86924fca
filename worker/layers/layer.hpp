#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/types.hpp"
#include "worker/engine/backend.hpp"
#include "worker/model/graph.hpp"

namespace taut {

/// A blob as a layer sees it. Its shape is fixed when the layer is made.
struct Tensor {
  DeviceSpan<float> value;
  DeviceSpan<float> gradient;  // empty: not computed
};

struct Parameter {
  DeviceSpan<const float> value;
  DeviceSpan<float> gradient;  // empty: not computed
};

/// A layer's connections in one call. In place: a top's spans are its bottom's.
struct Ports {
  std::span<const Tensor> bottoms;
  std::span<const Tensor> tops;
  std::span<const Parameter> parameters;
};

/// One layer of a net. It owns only what it keeps between forward and backward.
/// Thread    one at a time
class Layer {
 public:
  Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  virtual ~Layer() = default;

  /// Overwrites the tops' values. Errors: std::invalid_argument for labels that are not classes.
  virtual void forward(const Ports& ports, Stream& stream, Clock clock) = 0;

  /// Overwrites the non-empty gradients of bottoms and parameters. Follows a forward. A parameter
  /// that is averaged gets its new values as its gradient; a layer with one is called even if no
  /// gradient is computed and its tops have none. A top without a gradient is one that no loss
  /// reads.
  virtual void backward(const Ports& ports, Stream& stream) = 0;

  /// The state that the layer keeps from one batch to the next in addition to its parameters, so
  /// that it is saved with them. Fixed when the layer is made; empty if there is none.
  [[nodiscard]] virtual std::vector<DeviceSpan<float>> carried_state() { return {}; }
};

/// The inputs for making a layer.
struct LayerSetup {
  const model::Node& node;
  std::vector<Extents> bottoms;
  std::vector<Extents> tops;
  std::vector<bool> bottom_gradients;  // which bottoms' gradients will be computed
  bool training = true;
  /// Whether the second bottom, if it holds cont markers, starts sequences at the batch's first
  /// step only.
  bool begins_at_start = false;
  std::uint64_t seed = 0;
  std::uint32_t slot = 0;   // of the member
  std::uint32_t index = 0;  // of the layer in its net
};

/// Makes the layer that `setup.node.definition.type` names.
/// REQUIRES: a node that is not fed; shapes as model::build_graph determines them.
/// Errors    std::invalid_argument, with the layer's name: the backend does not support it
[[nodiscard]] std::unique_ptr<Layer> make_layer(Backend& backend, const LayerSetup& setup);

}  // namespace taut
