#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "common/result.hpp"
#include "worker/model/layer_rule.hpp"

// How each type of layer settles its shapes and parameters: LayerRule::settle, one function for a
// type, in a file for each family (rules_*.cpp). layer_rule.cpp keeps the table of them.
namespace taut::model::rules {

using Shapes = std::vector<Shape>;

[[nodiscard]] Result<LayerShapes> settle_data(const pb::LayerParameter& layer,
                                              const Shapes& bottoms, const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_dummy_data(const pb::LayerParameter& layer,
                                                    const Shapes& bottoms,
                                                    const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_input(const pb::LayerParameter& layer,
                                               const Shapes& bottoms, const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_convolution(const pb::LayerParameter& layer,
                                                     const Shapes& bottoms,
                                                     const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_pooling(const pb::LayerParameter& layer,
                                                 const Shapes& bottoms,
                                                 const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_inner_product(const pb::LayerParameter& layer,
                                                       const Shapes& bottoms,
                                                       const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_unchanged(const pb::LayerParameter& layer,
                                                   const Shapes& bottoms,
                                                   const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_relu(const pb::LayerParameter& layer,
                                              const Shapes& bottoms, const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_dropout(const pb::LayerParameter& layer,
                                                 const Shapes& bottoms,
                                                 const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_softmax(const pb::LayerParameter& layer,
                                                 const Shapes& bottoms,
                                                 const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_softmax_loss(const pb::LayerParameter& layer,
                                                      const Shapes& bottoms,
                                                      const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_accuracy(const pb::LayerParameter& layer,
                                                  const Shapes& bottoms,
                                                  const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_deconvolution(const pb::LayerParameter& layer,
                                                       const Shapes& bottoms,
                                                       const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_lrn(const pb::LayerParameter& layer, const Shapes& bottoms,
                                             const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_concat(const pb::LayerParameter& layer,
                                                const Shapes& bottoms, const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_slice(const pb::LayerParameter& layer,
                                               const Shapes& bottoms, const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_flatten(const pb::LayerParameter& layer,
                                                 const Shapes& bottoms,
                                                 const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_reshape(const pb::LayerParameter& layer,
                                                 const Shapes& bottoms,
                                                 const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_split(const pb::LayerParameter& layer,
                                               const Shapes& bottoms, const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_silence(const pb::LayerParameter& layer,
                                                 const Shapes& bottoms,
                                                 const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_reduction(const pb::LayerParameter& layer,
                                                   const Shapes& bottoms,
                                                   const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_arg_max(const pb::LayerParameter& layer,
                                                 const Shapes& bottoms,
                                                 const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_batch_norm(const pb::LayerParameter& layer,
                                                    const Shapes& bottoms,
                                                    const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_scale(const pb::LayerParameter& layer,
                                               const Shapes& bottoms, const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_bias(const pb::LayerParameter& layer,
                                              const Shapes& bottoms, const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_prelu(const pb::LayerParameter& layer,
                                               const Shapes& bottoms, const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_elu(const pb::LayerParameter& layer, const Shapes& bottoms,
                                             const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_power(const pb::LayerParameter& layer,
                                               const Shapes& bottoms, const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_exp(const pb::LayerParameter& layer, const Shapes& bottoms,
                                             const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_log(const pb::LayerParameter& layer, const Shapes& bottoms,
                                             const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_eltwise(const pb::LayerParameter& layer,
                                                 const Shapes& bottoms,
                                                 const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_pair_loss(const pb::LayerParameter& layer,
                                                   const Shapes& bottoms,
                                                   const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_hinge_loss(const pb::LayerParameter& layer,
                                                    const Shapes& bottoms,
                                                    const GraphOptions& options);
[[nodiscard]] Result<LayerShapes> settle_contrastive_loss(const pb::LayerParameter& layer,
                                                          const Shapes& bottoms,
                                                          const GraphOptions& options);

/// The num_output of a layer's own parameters. Errors: invalid, where it is missing or 0.
/// field  names the parameters, "convolution_param"
template <class Parameter>
Result<std::int64_t> outputs_of(const Parameter& parameter, const char* field) {
  if (parameter.num_output() > 0) return std::int64_t{parameter.num_output()};
  return invalid(fmt::format("{}.num_output is {}", field,
                             parameter.has_num_output() ? "0; it begins at 1" : "missing"));
}

}  // namespace taut::model::rules
