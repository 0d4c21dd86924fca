#pragma once

#include <array>
#include <cstddef>

#include "common/math/update_rule.hpp"

namespace taut::math::loops {

/// The rules' loops over a block of a slice, vectorised for the processor at hand.
/// g          [count] the block's summed gradient, multiplied by `scale` here
/// values     [count] read; `out` [count] may be the same memory
/// state      as many arrays of [count] as the rule keeps, by UpdateRule::state_count()
struct Block {
  const float* g;
  float scale;
  const float* values;
  float* out;
  float* first;   // the rule's first array, or null
  float* second;  // its second one, or null
  std::size_t count;
};

void sgd(const UpdateStep& step, const Block& block);
void momentum(const UpdateStep& step, const Block& block);
void nesterov(const UpdateStep& step, const Block& block);
void adam(const UpdateStep& step, const Block& block);
void adagrad(const UpdateStep& step, const Block& block);
void rmsprop(const UpdateStep& step, const Block& block);
void adadelta(const UpdateStep& step, const Block& block);
void adamw(const UpdateStep& step, const Block& block);

/// A sum that is kept in so many parts, element i in part i modulo them: the same bits on every
/// vector unit.
using PartedSum = std::array<double, 16>;

/// Adds the squares of `values`.
void add_squares(const float* values, std::size_t count, PartedSum& sum);
[[nodiscard]] double total(const PartedSum& sum);

/// LAMB's two passes: moments, the direction [count], and the squares of the values and of the
/// direction; then, when the norms of the whole slice are known, the step along it.
void lamb_moments(const UpdateStep& step, const Block& block, float* direction,
                  PartedSum& of_values, PartedSum& of_direction);
void lamb_step(const UpdateStep& step, float trust, const Block& block, const float* direction);

/// sum = scale * from, or += it. `from` is [count] float32 at any alignment.
void set_scaled(float* sum, const std::byte* from, float scale, std::size_t count);
void add_scaled(float* sum, const std::byte* from, float scale, std::size_t count);

}  // namespace taut::math::loops
