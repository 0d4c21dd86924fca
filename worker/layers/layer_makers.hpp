#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "worker/layers/layer.hpp"

// The types of layers, file by file.
namespace taut::layers {

struct LayerType {
  std::string_view name;
  /// Errors: std::invalid_argument, without the layer's name.
  std::unique_ptr<Layer> (*make)(Backend& backend, const LayerSetup& setup);
};
using LayerTypes = std::span<const LayerType>;

/// X(file) for every file of layers; the file defines FILE_layers(), which lists its types.
#define TAUT_EACH_LAYER_FILE(X) \
  X(accuracy)                   \
  X(activation)                 \
  X(affine)                     \
  X(attention)                  \
  X(batch_norm)                 \
  X(deconvolution)              \
  X(dropout)                    \
  X(eltwise)                    \
  X(embed)                      \
  X(layer_norm)                 \
  X(linear)                     \
  X(lrn)                        \
  X(pair_loss)                  \
  X(pooling)                    \
  X(recurrent)                  \
  X(reduction)                  \
  X(shape)                      \
  X(softmax)                    \
  X(softmax_loss)

#define TAUT_DECLARE_LAYERS(file) [[nodiscard]] LayerTypes file##_layers();
TAUT_EACH_LAYER_FILE(TAUT_DECLARE_LAYERS)
#undef TAUT_DECLARE_LAYERS

/// An axis that may be negative, counted from the end, as an index. REQUIRES: the shape has it.
[[nodiscard]] std::size_t axis_of(std::int64_t axis, const Extents& shape);

/// A rank-4 shape as an image's; a rank-3 one (N, C, W) as one of height 1.
[[nodiscard]] ImageShape image_of(const Extents& shape);

/// The window of a Convolution or Deconvolution.
[[nodiscard]] Window convolution_window_of(const LayerSetup& setup);

[[nodiscard]] std::optional<std::int64_t> ignore_label_of(const pb::LossParameter& loss);
/// The divisor that a loss names, or `otherwise`.
[[nodiscard]] Normalization normalization_of(const pb::LossParameter& loss,
                                             Normalization otherwise);

}  // namespace taut::layers
