#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/engine/fused_ops.hpp"
#include "worker/layers/layer.hpp"
#include "worker/model/graph.hpp"

// Consecutive layers that a FusingBackend computes as one.
namespace taut::layers {

/// Nodes of a graph from `first` on; no other layer reads the values between them.
struct FusedNodes {
  enum class Kind : std::uint8_t {
    kScaledBatchNorm,  // BatchNorm, Scale, and a ReLU if `relu`
    kConvolution,      // Convolution, ReLU
    kSum,              // Eltwise of two bottoms, ReLU
  };
  Kind kind = Kind::kConvolution;
  std::size_t first = 0;
  bool relu = true;
};
[[nodiscard]] std::vector<FusedNodes> fused_nodes(const model::Graph& graph);

/// Whether a BatchNorm computes with the statistics that its tables hold.
[[nodiscard]] bool has_kept_statistics(const model::Node& node, bool training);

/// `norm` replaces a BatchNorm and only updates the running sums; `scale` replaces the Scale behind
/// it and computes both, with the BatchNorm's bottom as its own.
struct ScaledBatchNormLayers {
  std::unique_ptr<Layer> norm;
  std::unique_ptr<Layer> scale;
};

// Errors, for all: std::invalid_argument, without the layer's name.
[[nodiscard]] ScaledBatchNormLayers make_scaled_batch_norm(Backend& backend, FusingBackend& fused,
                                                           const LayerSetup& norm, bool relu);
[[nodiscard]] std::unique_ptr<Layer> make_rectified_convolution(FusingBackend& fused,
                                                                const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_rectified_sum(FusingBackend& fused,
                                                        const LayerSetup& setup);

/// Makes a net's layers one after another, in the order of its nodes.
class LayerMaker {
 public:
  LayerMaker(const model::Graph& graph, Backend& backend);

  struct NodeLayer {
    std::unique_ptr<Layer> layer;
    bool has_forward = true;          // false: another layer computes its values
    bool has_bottoms_before = false;  // its bottoms are those of the node before it
  };
  /// REQUIRES: the layers before it have been made. Errors: as make_layer's.
  [[nodiscard]] NodeLayer make(const LayerSetup& setup);

 private:
  [[nodiscard]] NodeLayer make_fused(const LayerSetup& setup);

  Backend& backend_;
  FusingBackend* fusing_;
  std::vector<FusedNodes> fused_;
  std::unique_ptr<Layer> scale_;  // made with the BatchNorm in front of it
};

}  // namespace taut::layers
