#include <algorithm>
#include <limits>
#include <utility>

#include "worker/export/onnx/layer_operators.hpp"
#include "worker/model/rules/window.hpp"

namespace taut::onnx {
namespace {

using model::WindowSide;

/// One member of each side that an image or a signal has.
Dims of_sides(const model::Window& window, std::size_t sides, std::int64_t WindowSide::*member) {
  if (sides == 1) return {window.width.*member};
  return {window.height.*member, window.width.*member};
}

/// The same padding in front of and behind each side.
Dims both(Dims pads) {
  const std::size_t sides = pads.size();
  for (std::size_t i = 0; i < sides; ++i) pads.push_back(pads[i]);
  return pads;
}

/// Convolution and Deconvolution, whose weights ONNX stores as Caffe does.
Result<void> convolve(LayerTranslation& layer, const std::string& op) {
  const pb::ConvolutionParameter& parameter = layer.definition().convolution_param();
  const std::size_t sides = layer.bottom_shape(0).size() - 2;
  TAUT_TRY(const model::Window window, model::convolution_window(parameter, sides));
  Names inputs{layer.bottom(0), layer.parameter(0)};
  if (layer.parameter_count() > 1) inputs.push_back(layer.parameter(1));
  layer.write(0, op, inputs,
              {{"kernel_shape", of_sides(window, sides, &WindowSide::kernel)},
               {"strides", of_sides(window, sides, &WindowSide::stride)},
               {"pads", both(of_sides(window, sides, &WindowSide::pad))},
               {"dilations", of_sides(window, sides, &WindowSide::dilation)},
               whole("group", parameter.group())});
  return ok();
}

Result<void> convolution(LayerTranslation& layer) {
  return convolve(layer, "Conv");
}

Result<void> deconvolution(LayerTranslation& layer) {
  return convolve(layer, "ConvTranspose");
}

/// A pooling with all its padding explicit, so that ONNX's default rounding gives our windows:
/// runtimes differ in their ceil_mode, and none matches Caffe's.
struct PoolingPlan {
  model::Window window;
  std::int64_t rows = 0;  // of the top
  std::int64_t columns = 0;
  std::int64_t height = 0;  // of the bottom
  std::int64_t width = 0;

  /// The padding that the last window needs behind the image.
  [[nodiscard]] static std::int64_t end_pad(const WindowSide& side, std::int64_t windows,
                                            std::int64_t size) {
    return std::max<std::int64_t>(0, (windows - 1) * side.stride + side.kernel - size - side.pad);
  }
  [[nodiscard]] Attributes attributes() const {
    return {{"kernel_shape", of_sides(window, 2, &WindowSide::kernel)},
            {"strides", of_sides(window, 2, &WindowSide::stride)},
            {"pads", Dims{window.height.pad, window.width.pad, end_pad(window.height, rows, height),
                          end_pad(window.width, columns, width)}}};
  }
  [[nodiscard]] Attributes average_attributes() const {
    Attributes all = attributes();
    all.push_back(whole("count_include_pad", 1));
    return all;
  }
};

Result<PoolingPlan> pooling_plan(const LayerTranslation& layer) {
  const model::Shape& bottom = layer.bottom_shape(0);
  const model::Shape& top = layer.top_shape(0);
  PoolingPlan plan{{}, top[2], top[3], bottom[2], bottom[3]};
  TAUT_TRY(plan.window,
           model::pooling_window(layer.definition().pooling_param(), bottom[2], bottom[3]));
  return plan;
}

/// The number of elements that Caffe's average of a window divides by: those within the image and
/// its padding, which has the same width behind the image as in front of it.
std::int64_t counted(const WindowSide& side, std::int64_t position, std::int64_t size) {
  const std::int64_t begin = position * side.stride - side.pad;
  return std::min(begin + side.kernel, size + side.pad) - begin;
}

/// Factors that turn ONNX's averages, which divide by the whole window, into Caffe's: one for each
/// element of the top; empty if they are the same.
std::vector<float> average_factors(const PoolingPlan& plan) {
  const auto whole = static_cast<float>(plan.window.height.kernel * plan.window.width.kernel);
  std::vector<float> factors;
  for (std::int64_t y = 0; y < plan.rows; ++y) {
    for (std::int64_t x = 0; x < plan.columns; ++x) {
      const std::int64_t elements =
          counted(plan.window.height, y, plan.height) * counted(plan.window.width, x, plan.width);
      factors.push_back(whole / static_cast<float>(elements));
    }
  }
  const bool same = std::ranges::all_of(factors, [](float factor) { return factor == 1; });
  return same ? std::vector<float>() : factors;
}

/// Outside training: the sum of a window's squares over its sum.
/// Source    as StochasticPoolingOp
void stochastic(LayerTranslation& layer, const PoolingPlan& plan) {
  const std::string bottom = layer.bottom(0);
  const std::string squares = layer.add("Mul", {bottom, bottom});
  const std::string sums = layer.add("AveragePool", {bottom}, plan.average_attributes());
  const std::string tiny = layer.number(std::numeric_limits<float>::min());  // no division by 0
  layer.write(0, "Div",
              {layer.add("AveragePool", {squares}, plan.average_attributes()),
               layer.add("Add", {sums, tiny})});
}

Result<void> pooling(LayerTranslation& layer) {
  const pb::PoolingParameter& parameter = layer.definition().pooling_param();
  TAUT_TRY(const PoolingPlan plan, pooling_plan(layer));
  if (parameter.pool() == pb::PoolingParameter::STOCHASTIC) {
    stochastic(layer, plan);
  } else if (parameter.pool() == pb::PoolingParameter::MAX) {
    layer.write(0, "MaxPool", {layer.bottom(0)}, plan.attributes());
  } else if (const std::vector<float> factors = average_factors(plan); factors.empty()) {
    layer.write(0, "AveragePool", {layer.bottom(0)}, plan.average_attributes());
  } else {
    const std::string means =
        layer.add("AveragePool", {layer.bottom(0)}, plan.average_attributes());
    layer.write(0, "Mul", {means, layer.floats({1, 1, plan.rows, plan.columns}, factors)});
  }
  return ok();
}

/// ONNX has LRN across channels only; within one, the mean of the squares is an average pooling.
Result<void> lrn(LayerTranslation& layer) {
  const pb::LRNParameter& parameter = layer.definition().lrn_param();
  const std::int64_t size = parameter.local_size();
  const std::string bottom = layer.bottom(0);
  if (parameter.norm_region() == pb::LRNParameter::ACROSS_CHANNELS) {
    layer.write(0, "LRN", {bottom},
                {whole("size", size),
                 {"alpha", parameter.alpha()},
                 {"beta", parameter.beta()},
                 {"bias", parameter.k()}});
    return ok();
  }
  const std::int64_t half = (size - 1) / 2;
  const std::string means = layer.add("AveragePool", {layer.add("Mul", {bottom, bottom})},
                                      {{"kernel_shape", Dims{size, size}},
                                       {"strides", Dims{1, 1}},
                                       {"pads", Dims{half, half, half, half}},
                                       whole("count_include_pad", 1)});
  const std::string scaled = layer.add("Mul", {means, layer.number(parameter.alpha())});
  const std::string base = layer.add("Add", {scaled, layer.number(parameter.k())});
  layer.write(0, "Div", {bottom, layer.add("Pow", {base, layer.number(parameter.beta())})});
  return ok();
}

constexpr LayerOperators kImageOperators[]{
    {"Convolution", convolution},
    {"Deconvolution", deconvolution},
    {"LRN", lrn},
    {"Pooling", pooling},
};

}  // namespace

std::span<const LayerOperators> image_operators() {
  return kImageOperators;
}

}  // namespace taut::onnx
