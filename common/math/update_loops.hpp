#pragma once

#include <array>
#include <cstddef>

#include "common/math/update_rule.hpp"

namespace taut::math::loops {

/// The rules' loops over a block of a slice, vectorised for this processor.
/// g          [count] the block's summed gradient, multiplied by `scale` here
/// values     [count] read; `out` [count] may be the same memory
/// state      as many arrays of [count] as the rule keeps, by UpdateRule::state_count()
struct Block {
  const float* g;
  float scale;
  const float* values;
  float* out;
  float* first;   // the rule's first array, nullptr if it keeps none
  float* second;  // the second one, nullptr if it keeps fewer
  std::size_t count;
};

/// A sum that is kept in 16 parts, element i in part i modulo 16: the same bits on every vector
/// unit.
using PartedSum = std::array<double, 16>;

/// Adds the squares of `values`.
void add_squares(const float* values, std::size_t count, PartedSum& sum);
[[nodiscard]] double total(const PartedSum& sum);

/// The two passes of a rule whose step is scaled by norms over the slice: states, the direction
/// [count], and the squares of the values and of the direction; then, when the norms of the whole
/// slice are known, the step along it.
struct SliceLoops {
  void (*gather)(const UpdateStep& step, const Block& block, float* direction, PartedSum& of_values,
                 PartedSum& of_direction) = nullptr;
  float (*ratio)(double squares_of_values, double squares_of_direction) = nullptr;
  void (*along)(const UpdateStep& step, float ratio, const Block& block,
                const float* direction) = nullptr;
};

/// A rule's loops: one over its elements, or the two of a rule that is scaled by slice.
struct RuleLoops {
  void (*by_element)(const UpdateStep& step, const Block& block) = nullptr;
  SliceLoops by_slice;
};
[[nodiscard]] const RuleLoops& loops_of(RuleKind kind);

/// sum = scale * from, or += it. `from` is [count] float32 at any alignment.
void set_scaled(float* sum, const std::byte* from, float scale, std::size_t count);
void add_scaled(float* sum, const std::byte* from, float scale, std::size_t count);

}  // namespace taut::math::loops
