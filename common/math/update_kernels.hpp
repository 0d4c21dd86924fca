#pragma once

#include <cstddef>
#include <span>

#include "common/math/codec.hpp"
#include "common/math/update_rule.hpp"

namespace taut::math {

/// One worker's gradient of a slice as it arrived: [n] at any alignment, and the factor that
/// clipping gives it.
struct GradientView {
  const std::byte* bytes = nullptr;
  float scale = 1;
  Encoding encoding{};
  std::size_t count = 0;  // n; may be absent where it is not encoded
};

/// Values that read_gradient() reads at a time; a part begins at a multiple of it.
inline constexpr std::size_t kGradientBlock = 2048;

/// A part of a gradient without its factor: `out.size()` values from `begin` on.
void read_gradient(const GradientView& gradient, std::size_t begin, std::span<float> out);

/// Sums a part of gradients, each times its own scale, in their order: `sum.size()` elements from
/// `begin` on. The bits are those of reading each part, scaling and adding it. If all gradients are
/// sparse, only their kept values are read; products of factors are added without being stored.
/// sum       overwritten; at most kGradientBlock
/// REQUIRES  at least one gradient; begin is a multiple of kGradientBlock
/// Thread    any; no shared state
void sum_gradients(std::span<const GradientView> gradients, std::size_t begin,
                   std::span<float> sum);

/// Whether no value of a gradient of `count` values is infinite or NaN.
[[nodiscard]] bool all_finite(const GradientView& gradient, std::size_t count);

/// Applies sum over i of (gradients[i].scale * gradients[i]), times `scale`, to a slice in one
/// pass: sum in the order given, scaling, decay, rule and write. The order determines the bits. A
/// LAMB step is scaled by norms over the values of the call, so one call takes one slice; the other
/// rules have the same bits however a table is cut.
/// gradients  at least one, each of values.size() elements
/// values     [n] read
/// out        [n] written; may be the same memory as `values`, never overlaps it otherwise
/// state      rule.state_count() arrays of [n], updated in place
/// Thread     any; no shared state
void apply_update(RuleKind kind, const UpdateStep& step, std::span<const GradientView> gradients,
                  float scale, std::span<const float> values, std::span<float> out,
                  std::span<float* const> state);

/// Averages running statistics into `values`: each arrival moves them by `share` of the distance to
/// it; the aggregate of all members replaces them by the mean.
void apply_average(std::span<const GradientView> contributions, float share,
                   std::span<const float> values, std::span<float> out);

/// The sum of squares of `values`, in double.
[[nodiscard]] double sum_of_squares(std::span<const float> values);

}  // namespace taut::math
