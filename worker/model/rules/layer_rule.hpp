#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "worker/model/graph.hpp"

namespace taut::model {

/// A parameter of a layer, named "<layer>/<suffix>".
struct RequiredParameter {
  std::string suffix;
  Shape shape;
  pb::FillerParameter filler;
  /// Its treatment: kTrained may be frozen by its ParamSpec, the others cannot be changed.
  TableKind kind = TableKind::kTrained;
  /// It is kept by rows: the net computes with the rows that a batch names.
  struct Rows {
    RowTable table;
    std::int64_t of_batch = 0;  // the maximum that a batch names
  };
  std::optional<Rows> rows = {};
};

/// What a layer produces from its bottoms.
struct LayerShapes {
  std::vector<Shape> tops;
  std::vector<RequiredParameter> parameters;  // weights first
};

/// The treatment of a top that has its bottom's name.
enum class InPlace : std::uint8_t {
  kNever,    // the definition is refused
  kNewBlob,  // a separate blob, despite the name
  kOver,     // written over the bottom, if no layer still needs the bottom's values
};

/// The properties of a layer type that the graph depends on.
struct LayerRule {
  std::string_view type;
  std::size_t min_bottoms = 1;
  std::size_t max_bottoms = 1;
  std::size_t min_tops = 1;
  std::size_t max_tops = 1;
  /// This many leading bottoms can get a gradient; labels cannot.
  std::size_t differentiable_bottoms = 1;
  /// The exception among them, which cannot get one: markers.
  std::size_t marker_bottom = std::numeric_limits<std::size_t>::max();
  InPlace in_place = InPlace::kNever;
  /// Its top keeps its values until the backward pass: no layer may work in place on it.
  bool top_must_stay = false;
  /// The layer computes nothing: its tops are written from outside, batch by batch.
  bool is_fed = false;
  /// Its top must keep at least its elements' signs; layers that preserve signs may overwrite it.
  bool top_sign_must_stay = false;
  /// In place, no element changes its sign, or its gradient is 0.
  bool keeps_sign = false;
  /// Its first top is a loss, of weight 1 by default.
  bool is_loss = false;
  /// Computes the shapes. REQUIRES: bottoms passed check_shape, and their number is allowed.
  /// Errors: invalid, without the layer's name, which the caller adds.
  Result<LayerShapes> (*settle)(const pb::LayerParameter& layer, const std::vector<Shape>& bottoms,
                                const GraphOptions& options) = nullptr;
};

/// The rule of a type. Errors: invalid, lists the known types.
[[nodiscard]] Result<const LayerRule*> find_rule(const std::string& type);

}  // namespace taut::model
