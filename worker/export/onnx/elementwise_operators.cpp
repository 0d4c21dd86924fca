#include <cmath>
#include <numbers>

#include "worker/export/onnx/layer_operators.hpp"

namespace taut::onnx {
namespace {

/// scale x + shift, leaving out a scale of 1 and a shift of 0.
std::string linear(LayerTranslation& layer, float scale, float shift) {
  std::string value = layer.bottom(0);
  if (scale != 1) value = layer.add("Mul", {value, layer.number(scale)});
  if (shift != 0) value = layer.add("Add", {value, layer.number(shift)});
  return value;
}

/// The natural logarithm of a base; -1: e.
float log_of_base(float base) {
  return base == -1 ? 1 : std::log(base);
}

Result<void> relu(LayerTranslation& layer) {
  const float slope = layer.definition().relu_param().negative_slope();
  if (slope == 0) {
    layer.write(0, "Relu", {layer.bottom(0)});
  } else {
    layer.write(0, "LeakyRelu", {layer.bottom(0)}, {{"alpha", slope}});
  }
  return ok();
}

Result<void> elu(LayerTranslation& layer) {
  layer.write(0, "Elu", {layer.bottom(0)}, {{"alpha", layer.definition().elu_param().alpha()}});
  return ok();
}

Result<void> sigmoid(LayerTranslation& layer) {
  layer.write(0, "Sigmoid", {layer.bottom(0)});
  return ok();
}

Result<void> tanh(LayerTranslation& layer) {
  layer.write(0, "Tanh", {layer.bottom(0)});
  return ok();
}

Result<void> abs_val(LayerTranslation& layer) {
  layer.write(0, "Abs", {layer.bottom(0)});
  return ok();
}

Result<void> bnll(LayerTranslation& layer) {
  layer.write(0, "Softplus", {layer.bottom(0)});
  return ok();
}

/// Outside training it changes nothing.
Result<void> dropout(LayerTranslation& layer) {
  layer.write(0, "Identity", {layer.bottom(0)});
  return ok();
}

Result<void> power(LayerTranslation& layer) {
  const pb::PowerParameter& parameter = layer.definition().power_param();
  const std::string base = linear(layer, parameter.scale(), parameter.shift());
  if (parameter.power() == 1) {
    layer.write(0, "Identity", {base});
  } else if (parameter.power() == 2) {
    layer.write(0, "Mul", {base, base});
  } else {
    layer.write(0, "Pow", {base, layer.number(parameter.power())});
  }
  return ok();
}

Result<void> exp(LayerTranslation& layer) {
  const pb::ExpParameter& parameter = layer.definition().exp_param();
  const float log_base = log_of_base(parameter.base());
  layer.write(0, "Exp",
              {linear(layer, log_base * parameter.scale(), log_base * parameter.shift())});
  return ok();
}

Result<void> log(LayerTranslation& layer) {
  const pb::LogParameter& parameter = layer.definition().log_param();
  const std::string inner = linear(layer, parameter.scale(), parameter.shift());
  const float log_base = log_of_base(parameter.base());
  if (log_base == 1) {
    layer.write(0, "Log", {inner});
  } else {
    layer.write(0, "Div", {layer.add("Log", {inner}), layer.number(log_base)});
  }
  return ok();
}

Result<void> clip(LayerTranslation& layer) {
  const pb::ClipParameter& parameter = layer.definition().clip_param();
  layer.write(0, "Clip",
              {layer.bottom(0), layer.number(parameter.min()), layer.number(parameter.max())});
  return ok();
}

Result<void> swish(LayerTranslation& layer) {
  const float beta = layer.definition().swish_param().beta();
  const std::string gate = layer.add("Sigmoid", {linear(layer, beta, 0)});
  layer.write(0, "Mul", {layer.bottom(0), gate});
  return ok();
}

Result<void> threshold(LayerTranslation& layer) {
  const std::string limit = layer.number(layer.definition().threshold_param().threshold());
  layer.write(0, "Cast", {layer.add("Greater", {layer.bottom(0), limit})},
              {whole("to", TensorProto::FLOAT)});
  return ok();
}

/// ONNX has GELU only from operator set 20 on: x / 2 (1 + erf(x / sqrt(2))).
Result<void> gelu(LayerTranslation& layer) {
  const std::string bottom = layer.bottom(0);
  const std::string root = layer.number(1 / std::numbers::sqrt2_v<float>);
  const std::string error = layer.add("Erf", {layer.add("Mul", {bottom, root})});
  const std::string gate = layer.add("Add", {error, layer.number(1)});
  layer.write(0, "Mul", {layer.add("Mul", {bottom, layer.number(0.5F)}), gate});
  return ok();
}

Result<void> product(LayerTranslation& layer) {
  std::string value = layer.bottom(0);
  for (std::size_t i = 1; i + 1 < layer.bottom_count(); ++i) {
    value = layer.add("Mul", {value, layer.bottom(i)});
  }
  layer.write(0, "Mul", {value, layer.bottom(layer.bottom_count() - 1)});
  return ok();
}

Result<void> eltwise(LayerTranslation& layer) {
  const pb::EltwiseParameter& parameter = layer.definition().eltwise_param();
  if (parameter.operation() == pb::EltwiseParameter::PROD) return product(layer);
  Names values;
  for (std::size_t i = 0; i < layer.bottom_count(); ++i) {
    const float factor = parameter.coeff_size() > 0 ? parameter.coeff(static_cast<int>(i)) : 1;
    values.push_back(factor == 1 ? layer.bottom(i)
                                 : layer.add("Mul", {layer.bottom(i), layer.number(factor)}));
  }
  layer.write(0, parameter.operation() == pb::EltwiseParameter::MAX ? "Max" : "Sum", values);
  return ok();
}

constexpr LayerOperators kElementwiseOperators[]{
    {"ReLU", relu},       {"Sigmoid", sigmoid}, {"TanH", tanh},
    {"ELU", elu},         {"Exp", exp},         {"Power", power},
    {"Log", log},         {"AbsVal", abs_val},  {"BNLL", bnll},
    {"Eltwise", eltwise}, {"Dropout", dropout}, {"GELU", gelu},
    {"Clip", clip},       {"Swish", swish},     {"Threshold", threshold},
};

}  // namespace

std::span<const LayerOperators> elementwise_operators() {
  return kElementwiseOperators;
}

}  // namespace taut::onnx
