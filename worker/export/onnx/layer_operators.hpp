#pragma once

#include <span>
#include <string_view>

#include "common/result.hpp"
#include "worker/export/onnx/layer_translation.hpp"

// What each type of layer is in ONNX, with a file for each family of types: the same families as
// the layers' rules.
namespace taut::onnx {

struct LayerOperators {
  std::string_view type;
  /// Adds the operators, and writes each top that a later layer may read. A layer that measures or
  /// stores, as a loss does, writes none and is left out.
  /// Errors  invalid: what ONNX cannot express; without the layer's name, which the caller adds
  Result<void> (*translate)(LayerTranslation& layer) = nullptr;
};

/// X(family) for every family: FAMILY_operators.cpp defines FAMILY_operators().
#define TAUT_EACH_OPERATOR_FAMILY(X) \
  X(image)                           \
  X(inner_product)                   \
  X(elementwise)                     \
  X(channel)                         \
  X(shape)                           \
  X(loss)                            \
  X(sequence)                        \
  X(recurrent)

#define TAUT_DECLARE_OPERATORS(family) \
  [[nodiscard]] std::span<const LayerOperators> family##_operators();
TAUT_EACH_OPERATOR_FAMILY(TAUT_DECLARE_OPERATORS)
#undef TAUT_DECLARE_OPERATORS

/// The row of a type; nullptr if there is none.
[[nodiscard]] const LayerOperators* find_operators(std::string_view type);

}  // namespace taut::onnx
