#pragma once

#include <cstdint>
#include <memory>
#include <optional>

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
[[nodiscard]] std::unique_ptr<Layer> make_deconvolution(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_lrn(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_batch_norm(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_scale(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_bias(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_prelu(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_elu(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_power(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_exp(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_log(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_abs(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_bnll(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_eltwise(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_concat(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_slice(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_reshape(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_split(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_silence(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_reduction(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_arg_max(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_euclidean_loss(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_sigmoid_cross_entropy_loss(Backend& backend,
                                                                     const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_hinge_loss(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_contrastive_loss(Backend& backend,
                                                           const LayerSetup& setup);

[[nodiscard]] std::unique_ptr<Layer> make_embed(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_position_embed(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_recurrent(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_layer_norm(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_gelu(Backend& backend, const LayerSetup& setup);
[[nodiscard]] std::unique_ptr<Layer> make_attention(Backend& backend, const LayerSetup& setup);

/// An axis that may count from the end, as an index. REQUIRES: the shape has it.
[[nodiscard]] std::size_t axis_of(std::int64_t axis, const Extents& shape);

/// A rank-4 shape as an image's; a rank-3 one (N, C, W) as of height 1.
[[nodiscard]] ImageShape image_of(const Extents& shape);

/// The window of a Convolution or Deconvolution.
[[nodiscard]] Window convolution_window_of(const LayerSetup& setup);

[[nodiscard]] std::optional<std::int64_t> ignore_label_of(const pb::LossParameter& loss);
/// What a loss says that its sum is divided by, or `otherwise`.
[[nodiscard]] Normalization normalization_of(const pb::LossParameter& loss,
                                             Normalization otherwise);

}  // namespace taut::layers
