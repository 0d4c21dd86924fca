#include <fmt/format.h>

#include <cmath>

#include "worker/model/extents.hpp"
#include "worker/model/rules/rules.hpp"

namespace taut::model::rules {
namespace {

/// One label for every position of the scores outside of `axis`.
Result<void> check_labels_fit(const Shape& scores, const Shape& labels, std::size_t axis) {
  const auto expected = element_count(scores) / static_cast<std::uint64_t>(scores[axis]);
  if (element_count(labels) == expected) return ok();
  return invalid(
      fmt::format("scores of shape {} need {} labels, but the second bottom has shape {}",
                  to_string(scores), expected, to_string(labels)));
}

Shape without_ones(const Shape& shape) {
  Shape rest;
  for (const std::int64_t extent : shape) {
    if (extent != 1) rest.push_back(extent);
  }
  return rest;
}

Result<LayerShapes> settle_softmax(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  TAUT_TRY(axis_index(layer.softmax_param().axis(), bottoms[0], "softmax_param.axis"));
  return LayerShapes{{bottoms[0]}, {}};
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

Result<LayerShapes> settle_infogain_loss(const pb::LayerParameter& layer, const Shapes& bottoms,
                                         const GraphOptions&) {
  const pb::InfogainLossParameter& parameter = layer.infogain_loss_param();
  TAUT_TRY(const std::size_t axis,
           axis_index(parameter.axis(), bottoms[0], "infogain_loss_param.axis"));
  TAUT_TRY(check_labels_fit(bottoms[0], bottoms[1], axis));
  if (bottoms.size() < 3 && !parameter.has_source()) {
    return invalid(
        "requires the matrix as a third bottom, or as the file infogain_loss_param.source");
  }
  const std::int64_t classes = bottoms[0][axis];
  if (bottoms.size() > 2 && bottoms[2] != Shape{1, 1, classes, classes}) {
    return invalid(fmt::format("the third bottom must have shape 1x1x{}x{}, has {}", classes,
                               classes, to_string(bottoms[2])));
  }
  LayerShapes out{{Shape{}}, {}};
  if (layer.top_size() == 2) out.tops.push_back(bottoms[0]);
  return out;
}

Result<LayerShapes> settle_accuracy(const pb::LayerParameter& layer, const Shapes& bottoms,
                                    const GraphOptions&) {
  TAUT_TRY(const std::size_t axis,
           axis_index(layer.accuracy_param().axis(), bottoms[0], "accuracy_param.axis"));
  TAUT_TRY(check_labels_fit(bottoms[0], bottoms[1], axis));
  const std::int64_t top_k = layer.accuracy_param().top_k();
  if (top_k < 1 || top_k > bottoms[0][axis]) {
    return invalid(fmt::format("accuracy_param.top_k is {}, but there are {} classes", top_k,
                               bottoms[0][axis]));
  }
  LayerShapes out{{Shape{}}, {}};
  if (layer.top_size() == 2) out.tops.push_back({bottoms[0][axis]});
  return out;
}

Result<LayerShapes> settle_pair_loss(const pb::LayerParameter&, const Shapes& bottoms,
                                     const GraphOptions&) {
  if (bottoms[0].empty() || without_ones(bottoms[0]) != without_ones(bottoms[1])) {
    return invalid(fmt::format("bottoms of shapes {} and {} cannot be compared element by element",
                               to_string(bottoms[0]), to_string(bottoms[1])));
  }
  return LayerShapes{{Shape{}}, {}};
}

Result<LayerShapes> settle_hinge_loss(const pb::LayerParameter&, const Shapes& bottoms,
                                      const GraphOptions&) {
  TAUT_TRY(axis_index(1, bottoms[0], "the axis of the classes"));
  if (element_count(bottoms[1]) != static_cast<std::uint64_t>(bottoms[0][0])) {
    return invalid(
        fmt::format("scores of shape {} need {} labels, but the second bottom has "
                    "shape {}",
                    to_string(bottoms[0]), bottoms[0][0], to_string(bottoms[1])));
  }
  return LayerShapes{{Shape{}}, {}};
}

Result<LayerShapes> settle_contrastive_loss(const pb::LayerParameter& layer, const Shapes& bottoms,
                                            const GraphOptions&) {
  const float margin = layer.contrastive_loss_param().margin();
  if (!(margin >= 0 && std::isfinite(margin))) {
    return invalid(fmt::format("contrastive_loss_param.margin must be at least 0, is {}", margin));
  }
  TAUT_TRY(axis_index(1, bottoms[0], "the axis of the features"));
  if (bottoms[0] != bottoms[1]) {
    return invalid(fmt::format("the first two bottoms have shapes {} and {}, which must be equal",
                               to_string(bottoms[0]), to_string(bottoms[1])));
  }
  if (element_count(bottoms[2]) != static_cast<std::uint64_t>(bottoms[0][0])) {
    return invalid(fmt::format("{} pairs need as many labels, but the third bottom has shape {}",
                               bottoms[0][0], to_string(bottoms[2])));
  }
  return LayerShapes{{Shape{}}, {}};
}

constexpr LayerRule kLossRules[]{
    LayerRule{.type = "Softmax", .top_must_stay = true, .settle = settle_softmax},
    LayerRule{.type = "SoftmaxWithLoss",
              .min_bottoms = 2,
              .max_bottoms = 2,
              .max_tops = 2,
              .top_must_stay = true,
              .is_loss = true,
              .settle = settle_softmax_loss},
    LayerRule{.type = "InfogainLoss",
              .min_bottoms = 2,
              .max_bottoms = 3,
              .max_tops = 2,
              .top_must_stay = true,
              .is_loss = true,
              .settle = settle_infogain_loss},
    LayerRule{.type = "EuclideanLoss",
              .min_bottoms = 2,
              .max_bottoms = 2,
              .differentiable_bottoms = 2,
              .is_loss = true,
              .settle = settle_pair_loss},
    LayerRule{.type = "SigmoidCrossEntropyLoss",
              .min_bottoms = 2,
              .max_bottoms = 2,
              .is_loss = true,
              .settle = settle_pair_loss},
    LayerRule{.type = "HingeLoss",
              .min_bottoms = 2,
              .max_bottoms = 2,
              .is_loss = true,
              .settle = settle_hinge_loss},
    LayerRule{.type = "ContrastiveLoss",
              .min_bottoms = 3,
              .max_bottoms = 3,
              .differentiable_bottoms = 2,
              .is_loss = true,
              .settle = settle_contrastive_loss},
    LayerRule{.type = "Accuracy",
              .min_bottoms = 2,
              .max_bottoms = 2,
              .max_tops = 2,
              .differentiable_bottoms = 0,
              .settle = settle_accuracy},
};

}  // namespace

LayerRules loss_rules() {
  return kLossRules;
}

}  // namespace taut::model::rules
