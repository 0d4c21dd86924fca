#include <cstddef>
#include <vector>

#include "worker/export/onnx/layer_operators.hpp"
#include "worker/model/extents.hpp"

namespace taut::onnx {
namespace {

/// The axes from `first` on.
Dims axes_from(const model::Shape& shape, std::size_t first) {
  Dims axes;
  for (std::size_t axis = first; axis < shape.size(); ++axis) {
    axes.push_back(static_cast<std::int64_t>(axis));
  }
  return axes;
}

/// A bottom's distances from its means over some axes, and the means of their squares.
struct Distances {
  std::string values;
  std::string variance;
};
Distances distances(LayerTranslation& layer, const Dims& axes) {
  const std::string bottom = layer.bottom(0);
  const std::string means = layer.add("ReduceMean", {bottom}, {{"axes", axes}});
  const std::string values = layer.add("Sub", {bottom, means});
  const std::string squares = layer.add("Mul", {values, values});
  return {values, layer.add("ReduceMean", {squares}, {{"axes", axes}})};
}

/// Whether a BatchNorm tests with its running statistics.
bool has_kept_statistics(const pb::BatchNormParameter& parameter) {
  return !parameter.has_use_global_stats() || parameter.use_global_stats();
}

Result<void> batch_norm(LayerTranslation& layer) {
  const pb::BatchNormParameter& parameter = layer.definition().batch_norm_param();
  const model::Shape& bottom = layer.bottom_shape(0);
  if (!has_kept_statistics(parameter)) {
    Dims axes{0};
    for (const std::int64_t axis : axes_from(bottom, 2)) axes.push_back(axis);
    const Distances found = distances(layer, axes);
    const std::string sum = layer.add("Add", {found.variance, layer.number(parameter.eps())});
    layer.write(0, "Div", {found.values, layer.add("Sqrt", {sum})});
    return ok();
  }
  const Dims channels{bottom[1]};
  const auto count = static_cast<std::size_t>(bottom[1]);
  const std::string ones = layer.floats(channels, std::vector<float>(count, 1.0F));
  const std::string zeros = layer.floats(channels, std::vector<float>(count, 0.0F));
  layer.write(0, "BatchNormalization",
              {layer.bottom(0), ones, zeros,
               layer.derived("mean", channels, model::divided(layer.table(0), layer.table(2))),
               layer.derived("variance", channels, model::divided(layer.table(1), layer.table(2)))},
              {{"epsilon", parameter.eps()}});
  return ok();
}

/// The shape that repeats numbers for some axes from `axis` on: 1 for each axis that follows them.
Dims repeated(const model::Shape& numbers, const model::Shape& bottom, std::size_t axis) {
  Dims dims = numbers;
  dims.resize(bottom.size() - axis, 1);
  return dims;
}

/// The extents of a Scale's or Bias's numbers; a single number has none.
template <class P>
model::Shape numbers_of(const P& parameter, const model::Shape& bottom, std::size_t axis) {
  const auto first = bottom.begin() + static_cast<std::ptrdiff_t>(axis);
  return {first, parameter.num_axes() == -1 ? bottom.end() : first + parameter.num_axes()};
}

/// Scale and Bias: each operator with numbers from a second bottom, then with parameters.
template <class P>
Result<void> affine(LayerTranslation& layer, const P& parameter, const Names& operators,
                    const char* field) {
  const model::Shape& bottom = layer.bottom_shape(0);
  TAUT_TRY(const std::size_t axis, model::axis_index(parameter.axis(), bottom, field));
  const bool is_given = layer.bottom_count() == 2;
  const model::Shape shape = is_given ? layer.bottom_shape(1) : numbers_of(parameter, bottom, axis);
  const Dims dims = repeated(shape, bottom, axis);
  std::string value = layer.bottom(0);
  for (std::size_t i = 0; i < operators.size(); ++i) {
    std::string numbers;
    if (is_given && i == 0) {
      Dims added;
      for (std::size_t place = shape.size(); place < dims.size(); ++place) {
        added.push_back(static_cast<std::int64_t>(place));
      }
      numbers = layer.bottom(1);
      if (!added.empty()) numbers = layer.add("Unsqueeze", {numbers, layer.wholes(added)});
    } else {
      numbers = layer.parameter(is_given ? i - 1 : i, dims);
    }
    if (i + 1 == operators.size()) {
      layer.write(0, operators[i], {value, numbers});
    } else {
      value = layer.add(operators[i], {value, numbers});
    }
  }
  return ok();
}

Result<void> scale(LayerTranslation& layer) {
  const pb::ScaleParameter& parameter = layer.definition().scale_param();
  const Names operators = parameter.bias_term() ? Names{"Mul", "Add"} : Names{"Mul"};
  return affine(layer, parameter, operators, "scale_param.axis");
}

Result<void> bias(LayerTranslation& layer) {
  return affine(layer, layer.definition().bias_param(), {"Add"}, "bias_param.axis");
}

Result<void> prelu(LayerTranslation& layer) {
  Dims dims{layer.parameter_shape(0)[0]};
  dims.resize(layer.bottom_shape(0).size() - 1, 1);
  layer.write(0, "PRelu", {layer.bottom(0), layer.parameter(0, dims)});
  return ok();
}

Result<void> mvn(LayerTranslation& layer) {
  const pb::MVNParameter& parameter = layer.definition().mvn_param();
  const Dims axes = axes_from(layer.bottom_shape(0), parameter.across_channels() ? 1 : 2);
  if (axes.empty()) {  // single elements are their own means
    layer.write(0, "Sub", {layer.bottom(0), layer.bottom(0)});
    return ok();
  }
  const Distances found = distances(layer, axes);
  if (!parameter.normalize_variance()) {
    layer.write(0, "Identity", {found.values});
    return ok();
  }
  const std::string root = layer.add("Sqrt", {found.variance});
  layer.write(0, "Div", {found.values, layer.add("Add", {root, layer.number(parameter.eps())})});
  return ok();
}

constexpr LayerOperators kChannelOperators[]{
    {"MVN", mvn}, {"PReLU", prelu}, {"BatchNorm", batch_norm}, {"Scale", scale}, {"Bias", bias},
};

}  // namespace

std::span<const LayerOperators> channel_operators() {
  return kChannelOperators;
}

}  // namespace taut::onnx
