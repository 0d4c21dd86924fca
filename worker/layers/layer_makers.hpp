#pragma once

#include <memory>

#include "worker/layers/layer.hpp"

// One maker for each type of layer. Errors: std::invalid_argument, without the layer's name.
namespace taut::layers {

[[nodiscard]] std::unique_ptr<Layer> make_convolution(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_pooling(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_inner_product(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_relu(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_sigmoid(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_tanh(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_dropout(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_softmax(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_softmax_loss(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_accuracy(Backend& backend, const LayerSetup& setup);

[[nodiscard]] std::unique_ptr<Layer> make_embed(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_position_embed(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_recurrent(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_layer_norm(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_gelu(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_attention(Backend& backend, const LayerSetup& setup);

/// An axis that may count from the end, as an index. REQUIRES: the shape has it.
[[nodiscard]] std::size_t axis_of(std::int64_t axis, const Extents& shape);

/// A rank-4 shape as an image's.
[[nodiscard]] ImageShape image_of(const Extents& shape);

}  // namespace taut::layers
