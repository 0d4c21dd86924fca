#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "worker/model/graph.hpp"

namespace taut::model {

/// A parameter that a layer wants: what "<layer>/<suffix>" is made of.
struct ParameterWish {
  std::string suffix;
  Shape shape;
  pb::FillerParameter filler;
  /// What becomes of it: kTrained may be frozen by its ParamSpec, others stay what they are.
  TableKind kind = TableKind::kTrained;
};

/// What a layer makes of its bottoms.
struct LayerShapes {
  std::vector<Shape> tops;
  std::vector<ParameterWish> parameters;  // weights first
};

/// What becomes of a top that has its bottom's name.
enum class InPlace : std::uint8_t {
  kNever,    // the definition is refused
  kNewBlob,  // a blob of its own all the same
  kOver,     // written over the bottom, where nobody needs the bottom's values any more
};

/// What the graph must know of a layer type.
struct LayerRule {
  std::string_view type;
  std::size_t fewest_bottoms = 1;
  std::size_t most_bottoms = 1;
  std::size_t fewest_tops = 1;
  std::size_t most_tops = 1;
  /// The first so many bottoms can get a gradient; labels cannot.
  std::size_t differentiable_bottoms = 1;
  /// One among them that cannot all the same: markers.
  std::size_t marker_bottom = std::numeric_limits<std::size_t>::max();
  InPlace in_place = InPlace::kNever;
  /// Its top keeps its values until the backward pass: nobody may work in place on it.
  bool top_must_stay = false;
  /// It computes nothing: its tops are written from outside, batch by batch.
  bool is_fed = false;
  /// Its top keeps its elements' signs at least, and may be written over by what keeps them.
  bool top_sign_must_stay = false;
  /// Where it works in place: no element changes its sign, or its gradient is 0.
  bool keeps_sign = false;
  /// Its first top is a loss, of weight 1 where the definition says nothing.
  bool is_loss = false;
  /// Bottoms have passed check_shape, and their number fits. Errors: invalid, without the layer's
  /// name, which the caller adds.
  Result<LayerShapes> (*settle)(const pb::LayerParameter& layer, const std::vector<Shape>& bottoms,
                                const GraphOptions& options) = nullptr;
};

/// The rule of a type. Errors: invalid, lists the known types.
[[nodiscard]] Result<const LayerRule*> find_rule(const std::string& type);

}  // namespace taut::model
