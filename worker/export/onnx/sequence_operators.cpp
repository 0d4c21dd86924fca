#include <cmath>
#include <cstddef>
#include <vector>

#include "worker/export/onnx/layer_operators.hpp"
#include "worker/model/extents.hpp"

namespace taut::onnx {
namespace {

/// Our weights have a row per output, ONNX's products a row per input.
std::string product(LayerTranslation& layer, const std::string& value, std::size_t weight,
                    bool bias) {
  const std::string columns =
      layer.add("Transpose", {layer.parameter(weight)}, {{"perm", Dims{1, 0}}});
  const std::string sums = layer.add("MatMul", {value, columns});
  return bias ? layer.add("Add", {sums, layer.parameter(weight + 1)}) : sums;
}

Result<void> embed(LayerTranslation& layer) {
  const std::string rows = layer.add("Cast", {layer.bottom(0)}, {whole("to", TensorProto::INT64)});
  const Names inputs{layer.parameter(0), rows};
  if (layer.parameter_count() == 1) {
    layer.write(0, "Gather", inputs, {whole("axis", 0)});
  } else {
    layer.write(0, "Add", {layer.add("Gather", inputs, {whole("axis", 0)}), layer.parameter(1)});
  }
  return ok();
}

Result<void> position_embed(LayerTranslation& layer) {
  const model::Shape& rows = layer.parameter_shape(0);
  layer.write(0, "Add", {layer.bottom(0), layer.parameter(0, {rows[0], 1, rows[1]})});
  return ok();
}

Result<void> layer_norm(LayerTranslation& layer) {
  const pb::LayerNormParameter& parameter = layer.definition().layer_norm_param();
  const model::Shape& bottom = layer.bottom_shape(0);
  TAUT_TRY(const std::size_t axis,
           model::axis_index(parameter.axis(), bottom, "layer_norm_param.axis"));
  Names inputs{layer.bottom(0)};
  if (layer.parameter_count() > 0) {
    inputs.push_back(layer.parameter(0));
    inputs.push_back(layer.parameter(1));
  } else {
    const Dims dims(bottom.begin() + static_cast<std::ptrdiff_t>(axis), bottom.end());
    inputs.push_back(layer.floats(dims, std::vector<float>(model::element_count(dims), 1.0F)));
  }
  layer.write(0, "LayerNormalization", inputs,
              {whole("axis", static_cast<std::int64_t>(axis)), {"epsilon", parameter.eps()}});
  return ok();
}

/// The steps that a step may attend to, as booleans that broadcast to scores [N, heads, T, T];
/// empty: all.
std::string allowed(LayerTranslation& layer) {
  std::string causal;
  if (layer.definition().attention_param().causal()) {
    const std::int64_t steps = layer.bottom_shape(0)[0];
    std::vector<bool> seen;
    for (std::int64_t row = 0; row < steps; ++row) {
      for (std::int64_t column = 0; column < steps; ++column) seen.push_back(column <= row);
    }
    causal = layer.booleans({steps, steps}, seen);
  }
  if (layer.bottom_count() == 1) return causal;
  // The mask is [T, N], and hides the steps that would be attended to.
  const std::string streams = layer.add("Transpose", {layer.bottom(1)}, {{"perm", Dims{1, 0}}});
  const std::string shown = layer.add("Unsqueeze", {streams, layer.wholes({1, 2})});
  const std::string hidden = layer.add("Equal", {shown, layer.number(0)});
  const std::string given = layer.add("Not", {hidden});
  return causal.empty() ? given : layer.add("And", {given, causal});
}

/// Scores [N, heads, T, T] as weights. A step that may attend to none gets zeros.
std::string soften(LayerTranslation& layer, std::string scores) {
  constexpr float kHuge = 3e38F;
  const std::string seen = allowed(layer);
  if (!seen.empty()) scores = layer.add("Where", {seen, scores, layer.number(-kHuge)});
  std::string weights = layer.add("Softmax", {scores}, {whole("axis", -1)});
  if (layer.bottom_count() == 1) return weights;
  const std::string factors = layer.add("Cast", {seen}, {whole("to", TensorProto::FLOAT)});
  return layer.add("Mul", {weights, factors});
}

/// As MultiHeadAttention and AttentionOp compute it.
Result<void> attention(LayerTranslation& layer) {
  const pb::AttentionParameter& parameter = layer.definition().attention_param();
  const std::int64_t channels = layer.bottom_shape(0)[2];
  const std::int64_t heads = parameter.num_heads();
  const std::int64_t depth = channels / heads;
  const bool bias = parameter.bias_term();
  const Names parts = layer.add_several(
      "Split", 3,
      {product(layer, layer.bottom(0), 0, bias), layer.wholes({channels, channels, channels})},
      {whole("axis", 2)});
  const auto of_heads = [&](const std::string& part, const Dims& order) {
    return layer.add("Transpose", {layer.reshape(part, {0, 0, heads, depth})}, {{"perm", order}});
  };
  const Dims rows{1, 2, 0, 3};  // [T, N, heads, depth] to [N, heads, T, depth]
  const std::string keys = of_heads(parts[1], {1, 2, 3, 0});
  const std::string dots = layer.add("MatMul", {of_heads(parts[0], rows), keys});
  const float scale = 1 / std::sqrt(static_cast<float>(depth));
  const std::string weights = soften(layer, layer.add("Mul", {dots, layer.number(scale)}));
  const std::string found = layer.add("MatMul", {weights, of_heads(parts[2], rows)});
  const std::string steps = layer.add("Transpose", {found}, {{"perm", Dims{2, 0, 1, 3}}});
  const std::string mixed =
      product(layer, layer.reshape(steps, {0, 0, channels}), bias ? 2 : 1, bias);
  layer.write(0, "Identity", {mixed});
  return ok();
}

constexpr LayerOperators kSequenceOperators[]{
    {"Embed", embed},
    {"PositionEmbed", position_embed},
    {"LayerNorm", layer_norm},
    {"MultiHeadAttention", attention},
};

}  // namespace

std::span<const LayerOperators> sequence_operators() {
  return kSequenceOperators;
}

}  // namespace taut::onnx
