#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/result.hpp"
#include "worker/model/rules/layer_rule.hpp"

// The rules of each type of layer: how many bottoms it takes, and its shapes and parameters
// (LayerRule::settle), with a file for each family of types.
namespace taut::model::rules {

using Shapes = std::vector<Shape>;

using LayerRules = std::span<const LayerRule>;

/// X(family) for every family: FAMILY.cpp defines FAMILY_rules().
#define TAUT_EACH_RULE_FAMILY(X) \
  X(input)                       \
  X(image)                       \
  X(inner_product)               \
  X(elementwise)                 \
  X(channel)                     \
  X(shape)                       \
  X(loss)                        \
  X(sequence)

#define TAUT_DECLARE_RULES(family) [[nodiscard]] LayerRules family##_rules();
TAUT_EACH_RULE_FAMILY(TAUT_DECLARE_RULES)
#undef TAUT_DECLARE_RULES

/// The maximum number of bottoms or tops of a layer that may have any number.
inline constexpr std::size_t kMaxLayerBlobs = 1024;

/// The num_output of a layer's own parameters. Errors: invalid, it is missing or 0.
/// field  the parameters' name, e.g. "convolution_param"
template <class Parameter>
Result<std::int64_t> outputs_of(const Parameter& parameter, const char* field) {
  if (parameter.num_output() > 0) return std::int64_t{parameter.num_output()};
  return invalid(
      fmt::format("{}.num_output {}", field,
                  parameter.has_num_output() ? "must be at least 1, is 0" : "is missing"));
}

}  // namespace taut::model::rules
