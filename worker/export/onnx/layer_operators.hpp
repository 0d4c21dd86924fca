#pragma once

#include <span>
#include <string_view>

#include "common/result.hpp"
#include "worker/export/onnx/layer_translation.hpp"

// The ONNX operators for each type of layer, with a file for each family of types: the same
// families as the layers' rules.
namespace taut::onnx {

struct LayerOperators {
  std::string_view type;
  /// Adds the operators, and writes each top that a later layer may read. A layer that only
  /// measures or stores, such as a loss, writes none and is left out.
  /// Errors  invalid: ONNX cannot express the layer; without its name, which the caller adds
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

/// The entry of a type; nullptr if there is none.
[[nodiscard]] const LayerOperators* find_operators(std::string_view type);

}  // namespace taut::onnx
