#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "common/math/activation.hpp"

// Kernels on elements at the same index of equally long arrays. Arrays may be the same where an
// operation's contract says so; all kernels are queued on the given stream.
namespace taut::cuda {

void fill(cudaStream_t stream, float* to, std::int64_t count, float value);
/// into += from
void add(cudaStream_t stream, const float* from, float* into, std::int64_t count);
void multiply(cudaStream_t stream, const float* a, const float* b, float* out, std::int64_t count);

struct Scaled {
  const float* values;
  float factor;
};
/// out = the sum of factor * values, in the order given; out may be one of them.
/// relu  the sum's negative numbers become 0
void weighted_sum(cudaStream_t stream, std::span<const Scaled> terms, float* out,
                  std::int64_t count, bool relu = false);

/// A target of a gradient, and the gradient's factor; nullptr: no target.
struct ScaledTarget {
  float* values;
  float factor;
};
/// Both targets = factor * top_gradient where the top is above 0, else 0.
void rectified_sum_backward(cudaStream_t stream, const float* top, const float* top_gradient,
                            const ScaledTarget& first, const ScaledTarget& second,
                            std::int64_t count);

/// top = function.value(bottom); bottom_gradient = top_gradient * function.slope(at).
void activation_forward(cudaStream_t stream, const math::Activation& function, const float* bottom,
                        float* top, std::int64_t count);
void activation_backward(cudaStream_t stream, const math::Activation& function, const float* at,
                         const float* top_gradient, float* bottom_gradient, std::int64_t count);

void gelu_forward(cudaStream_t stream, const float* bottom, float* top, std::int64_t count);
void gelu_backward(cudaStream_t stream, const float* bottom, const float* top_gradient,
                   float* bottom_gradient, std::int64_t count);

/// Adds a bottom to a maximum: top = max(top, bottom).
void max_into(cudaStream_t stream, const float* bottom, float* top, std::int64_t count);
/// gradient = 0 where `other` is greater than `own`; ties go to the first in the layer's order
/// (own_is_first).
void max_mask(cudaStream_t stream, const float* own, const float* other, bool own_is_first,
              float* gradient, std::int64_t count);

/// A tensor viewed along the axes that have their own factors: (outer, length, inner).
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;

  [[nodiscard]] constexpr std::int64_t count() const { return outer * length * inner; }
  [[nodiscard]] constexpr std::int64_t positions() const { return outer * inner; }
};

/// top = bottom * factors + summands, one of each for every index of the length; either may be
/// nullptr.
/// relu  negative numbers become 0
void affine_forward(cudaStream_t stream, const AxisView& view, const float* bottom,
                    const float* factors, const float* summands, float* top, bool relu = false);
void prelu_forward(cudaStream_t stream, const AxisView& view, const float* bottom,
                   const float* slopes, float* top);
void prelu_backward(cudaStream_t stream, const AxisView& view, const float* bottom,
                    const float* slopes, const float* top_gradient, float* bottom_gradient);
/// slopes_gradient[k] = sum of dy * bottom where the bottom is at most 0
/// scratch  reduce_scratch(view) bytes (reduce.hpp)
void prelu_slope_gradients(cudaStream_t stream, const AxisView& view, const float* bottom,
                           const float* top_gradient, float* slopes_gradient, void* scratch);

struct DropoutDraw {
  std::uint64_t key = 0;     // of Philox
  std::uint64_t stream = 0;  // of Philox
  float ratio = 0;
};
/// to = from times the mask of the clock stored at `clock` in device memory: 0 for dropped
/// elements, 1 / (1 - ratio) for kept ones. The same draws as the CPU's.
void dropout(cudaStream_t stream, const DropoutDraw& draw, const std::int64_t* clock,
             const float* from, float* to, std::int64_t count);
/// Writes a number to device memory without a copy from the host.
void set_number(cudaStream_t stream, std::int64_t* to, std::int64_t value);

/// `rows` rows of `length` elements, whose starts are `from_step` and `to_step` apart.
void copy_rows(cudaStream_t stream, const float* from, std::int64_t from_step, float* to,
               std::int64_t to_step, std::int64_t rows, std::int64_t length);

}  // namespace taut::cuda
