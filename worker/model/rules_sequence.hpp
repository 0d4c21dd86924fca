#pragma once

#include <vector>

#include "common/result.hpp"
#include "worker/model/layer_rule.hpp"

// The shapes and parameters of layers over sequences: blobs of T steps x N streams x C channels.
// Errors of all of these: invalid, without the layer's name, as LayerRule::settle.
namespace taut::model::rules {

/// Bottom: whole numbers, of rank 1 or 2. Top: the bottom's shape x num_output.
[[nodiscard]] Result<LayerShapes> settle_embed(const pb::LayerParameter& layer,
                                               const std::vector<Shape>& bottoms,
                                               const GraphOptions& options);

/// Bottoms: T x N x D; where they are given the cont markers T x N and x_static N x ...; with
/// expose_hidden the states num_layers x N x num_output. Tops: T x N x num_output, or N x num_output
/// of the last step; with expose_hidden the states.
/// Parameters of each layer, in Caffe's order: weight_x [G num_output, D], bias_x, weight_x_static
/// [G num_output, ...] (of the first one, where there is an x_static), weight_h
/// [G num_output, num_output] and, for a GRU, bias_h; G gates lie below each other. A layer above
/// the first has "_l1", "_l2", ... behind its names. Last, an RNN's weight_o and bias_o.
[[nodiscard]] Result<LayerShapes> settle_recurrent(const pb::LayerParameter& layer,
                                                   const std::vector<Shape>& bottoms,
                                                   const GraphOptions& options);

/// Parameters: weight (ones at first) and bias (zeros), both of the normalised extents.
[[nodiscard]] Result<LayerShapes> settle_layer_norm(const pb::LayerParameter& layer,
                                                    const std::vector<Shape>& bottoms,
                                                    const GraphOptions& options);

/// Bottoms: T x N x C, and a T x N mask where there is one. Parameters: weight_qkv [3 C, C],
/// bias_qkv, weight_o [C, C], bias_o.
[[nodiscard]] Result<LayerShapes> settle_attention(const pb::LayerParameter& layer,
                                                   const std::vector<Shape>& bottoms,
                                                   const GraphOptions& options);

/// Bottom: T x N x C. Parameter: weight [T, C].
[[nodiscard]] Result<LayerShapes> settle_position_embed(const pb::LayerParameter& layer,
                                                        const std::vector<Shape>& bottoms,
                                                        const GraphOptions& options);

}  // namespace taut::model::rules
