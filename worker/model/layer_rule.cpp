#include "worker/model/layer_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "proto/did_you_mean.hpp"
#include "worker/model/shape.hpp"
#include "worker/model/window.hpp"

namespace taut::model {
namespace {

using Shapes = std::vector<Shape>;

Result<void> check_is_images(const Shape& bottom) {
  if (bottom.size() == 4) return ok();
  return invalid(fmt::format("the bottom has shape {}, and must be images (N x C x H x W)",
                             to_string(bottom)));
}

template <class Parameter>
Result<std::int64_t> outputs_of(const Parameter& parameter, const char* field) {
  if (parameter.num_output() > 0) return std::int64_t{parameter.num_output()};
  return invalid(fmt::format("{}.num_output is {}", field,
                             parameter.has_num_output() ? "0; it begins at 1" : "missing"));
}

Result<LayerShapes> settle_data(const pb::LayerParameter& layer, const Shapes&,
                                const GraphOptions& options) {
  const std::int64_t batch =
      options.batch > 0 ? options.batch : std::int64_t{layer.data_param().batch_size()};
  if (batch == 0) return invalid("data_param.batch_size is missing");
  const RecordShape& record = options.record;
  const int means = layer.transform_param().mean_value_size();
  if (means > 1 && means != record.channels) {
    return invalid(
        fmt::format("transform_param.mean_value is given {} times; the records have {} "
                    "channels",
                    means, record.channels));
  }
  LayerShapes out{{{batch, record.channels, record.height, record.width}}, {}};
  if (layer.top_size() == 2) out.tops.push_back({batch});
  return out;
}

Result<LayerShapes> settle_input(const pb::LayerParameter& layer, const Shapes&,
                                 const GraphOptions&) {
  const auto& shapes = layer.input_param().shape();
  if (shapes.size() != 1 && shapes.size() != layer.top_size()) {
    return invalid(
        fmt::format("input_param.shape is given {} times for {} tops: give one for each "
                    "top, or one for all",
                    shapes.size(), layer.top_size()));
  }
  LayerShapes out;
  for (int i = 0; i < layer.top_size(); ++i) {
    const auto& dims = shapes.Get(shapes.size() == 1 ? 0 : i).dim();
    out.tops.emplace_back(dims.begin(), dims.end());
  }
  return out;
}

Result<LayerShapes> settle_convolution(const pb::LayerParameter& layer, const Shapes& bottoms,
                                       const GraphOptions&) {
  const pb::ConvolutionParameter& parameter = layer.convolution_param();
  const Shape& bottom = bottoms[0];
  TAUT_TRY(check_is_images(bottom));
  TAUT_TRY(const std::int64_t outputs, outputs_of(parameter, "convolution_param"));
  const std::int64_t group = parameter.group();
  if (group == 0 || bottom[1] % group != 0 || outputs % group != 0) {
    return invalid(
        fmt::format("convolution_param.group of {} does not divide the bottom's {} "
                    "channels and num_output {}",
                    group, bottom[1], outputs));
  }
  TAUT_TRY(const Window window, convolution_window(parameter));
  TAUT_TRY(const std::int64_t height, convolution_extent(bottom[2], window.height, "height"));
  TAUT_TRY(const std::int64_t width, convolution_extent(bottom[3], window.width, "width"));
  LayerShapes out{{{bottom[0], outputs, height, width}}, {}};
  out.parameters.push_back({"weight",
                            {outputs, bottom[1] / group, window.height.kernel, window.width.kernel},
                            parameter.weight_filler()});
  if (parameter.bias_term()) {
    out.parameters.push_back({"bias", {outputs}, parameter.bias_filler()});
  }
  return out;
}

Result<LayerShapes> settle_pooling(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  const Shape& bottom = bottoms[0];
  TAUT_TRY(check_is_images(bottom));
  TAUT_TRY(const Window window, pooling_window(layer.pooling_param(), bottom[2], bottom[3]));
  TAUT_TRY(const std::int64_t height, pooling_extent(bottom[2], window.height, "height"));
  TAUT_TRY(const std::int64_t width, pooling_extent(bottom[3], window.width, "width"));
  return LayerShapes{{{bottom[0], bottom[1], height, width}}, {}};
}

Result<LayerShapes> settle_inner_product(const pb::LayerParameter& layer, const Shapes& bottoms,
                                         const GraphOptions&) {
  const pb::InnerProductParameter& parameter = layer.inner_product_param();
  const Shape& bottom = bottoms[0];
  TAUT_TRY(const std::int64_t outputs, outputs_of(parameter, "inner_product_param"));
  TAUT_TRY(const std::size_t axis,
           axis_index(parameter.axis(), bottom, "inner_product_param.axis"));
  Shape top(bottom.begin(), bottom.begin() + static_cast<std::ptrdiff_t>(axis));
  top.push_back(outputs);
  LayerShapes out{{top}, {}};
  out.parameters.push_back({"weight",
                            {outputs, extent_product(bottom, axis, bottom.size())},
                            parameter.weight_filler()});
  if (parameter.bias_term()) {
    out.parameters.push_back({"bias", {outputs}, parameter.bias_filler()});
  }
  return out;
}

Result<LayerShapes> settle_unchanged(const pb::LayerParameter&, const Shapes& bottoms,
                                     const GraphOptions&) {
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_relu(const pb::LayerParameter& layer, const Shapes& bottoms,
                                const GraphOptions&) {
  const float slope = layer.relu_param().negative_slope();
  if (!(slope >= 0 && std::isfinite(slope))) {
    return invalid(fmt::format("relu_param.negative_slope is {}; it begins at 0", slope));
  }
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_dropout(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  const float ratio = layer.dropout_param().dropout_ratio();
  if (!(ratio >= 0 && ratio < 1)) {
    return invalid(fmt::format("dropout_param.dropout_ratio is {}; it lies in [0, 1)", ratio));
  }
  return LayerShapes{{bottoms[0]}, {}};
}

Result<LayerShapes> settle_softmax(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  TAUT_TRY(axis_index(layer.softmax_param().axis(), bottoms[0], "softmax_param.axis"));
  return LayerShapes{{bottoms[0]}, {}};
}

/// One label for every position of the scores outside of `axis`.
Result<void> check_labels_fit(const Shape& scores, const Shape& labels, std::size_t axis) {
  const auto wanted = element_count(scores) / static_cast<std::uint64_t>(scores[axis]);
  if (element_count(labels) == wanted) return ok();
  return invalid(
      fmt::format("scores of shape {} want {} labels, and the second bottom has shape {}",
                  to_string(scores), wanted, to_string(labels)));
}

Result<LayerShapes> settle_softmax_loss(const pb::LayerParameter& layer, const Shapes& bottoms,
                                        const GraphOptions&) {
  TAUT_TRY(const std::size_t axis,
           axis_index(layer.softmax_param().axis(), bottoms[0], "softmax_param.axis"));
  TAUT_TRY(check_labels_fit(bottoms[0], bottoms[1], axis));
  LayerShapes out{{Shape{}}, {}};
  if (layer.top_size() == 2) out.tops.push_back(bottoms[0]);
  return out;
}

Result<LayerShapes> settle_accuracy(const pb::LayerParameter& layer, const Shapes& bottoms,
                                    const GraphOptions&) {
  TAUT_TRY(const std::size_t axis, axis_index(1, bottoms[0], "the axis of the classes"));
  TAUT_TRY(check_labels_fit(bottoms[0], bottoms[1], axis));
  const std::int64_t top_k = layer.accuracy_param().top_k();
  if (top_k < 1 || top_k > bottoms[0][axis]) {
    return invalid(fmt::format("accuracy_param.top_k is {}, and there are {} classes", top_k,
                               bottoms[0][axis]));
  }
  return LayerShapes{{Shape{}}, {}};
}

constexpr std::array kRules{
    LayerRule{.type = "Data",
              .fewest_bottoms = 0,
              .most_bottoms = 0,
              .most_tops = 2,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .settle = settle_data},
    LayerRule{.type = "Input",
              .fewest_bottoms = 0,
              .most_bottoms = 0,
              .most_tops = 64,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .settle = settle_input},
    LayerRule{.type = "Convolution", .settle = settle_convolution},
    LayerRule{.type = "Pooling", .settle = settle_pooling},
    LayerRule{.type = "InnerProduct", .settle = settle_inner_product},
    // A ReLU's gradient needs only its top's sign, so its top need not stay: what may be written
    // over it (ReLU, TanH, Dropout) keeps the sign, or passes no gradient back. A Sigmoid does
    // neither.
    LayerRule{.type = "ReLU", .in_place = InPlace::kOver, .settle = settle_relu},
    LayerRule{.type = "Sigmoid",
              .in_place = InPlace::kNewBlob,
              .top_must_stay = true,
              .settle = settle_unchanged},
    LayerRule{.type = "TanH",
              .in_place = InPlace::kOver,
              .top_must_stay = true,
              .settle = settle_unchanged},
    LayerRule{.type = "Dropout", .in_place = InPlace::kOver, .settle = settle_dropout},
    LayerRule{.type = "Softmax", .top_must_stay = true, .settle = settle_softmax},
    LayerRule{.type = "SoftmaxWithLoss",
              .fewest_bottoms = 2,
              .most_bottoms = 2,
              .most_tops = 2,
              .top_must_stay = true,
              .is_loss = true,
              .settle = settle_softmax_loss},
    LayerRule{.type = "Accuracy",
              .fewest_bottoms = 2,
              .most_bottoms = 2,
              .differentiable_bottoms = 0,
              .settle = settle_accuracy},
};

}  // namespace

Result<const LayerRule*> find_rule(const std::string& type) {
  const auto found = std::find_if(kRules.begin(), kRules.end(),
                                  [&](const LayerRule& rule) { return rule.type == type; });
  if (found != kRules.end()) return &*found;
  std::vector<std::string_view> types;
  for (const LayerRule& rule : kRules) types.push_back(rule.type);
  const std::string problem =
      type.empty() ? "has no type" : fmt::format("is of unknown type \"{}\"", type);
  return invalid(fmt::format("{}{}; known are {}", problem, did_you_mean(type, types),
                             fmt::join(types, ", ")));
}

}  // namespace taut::model
