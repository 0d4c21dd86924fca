#include "cuda/kernels/elementwise.hpp"

#include <algorithm>
#include <functional>
#include <variant>
#include <vector>

#include "common/math/philox.hpp"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/place_of.cuh"

namespace taut::cuda {
namespace {

constexpr int kMaxTerms = 8;  // of one launch
struct Terms {
  Scaled at[kMaxTerms];
  int count;
};

constexpr float kRootHalf = 0.70710678F;       // 1 / sqrt(2)
constexpr float kDensityAtZero = 0.39894228F;  // 1 / sqrt(2 pi)

/// Philox gives four numbers at once, for four neighbours.
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(std::int64_t count, DropoutDraw draw, const std::int64_t* clock,
                   const float* from, float* to) {
  const std::uint64_t first = static_cast<std::uint64_t>(*clock) << 32U;
  const float kept = 1 / (1 - draw.ratio);
  const std::int64_t groups = (count + 3) / 4;
  for (std::int64_t group = first_index(); group < groups; group += index_step()) {
    const math::Philox random =
        math::Philox::at(draw.key, draw.stream, first | static_cast<std::uint64_t>(group));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const std::int64_t i = 4 * group + k;
      if (i >= count) break;
      to[i] = math::unit_float(random.words[k]) < draw.ratio ? 0.0F : from[i] * kept;
    }
  }
}

__global__ void set_number_kernel(std::int64_t* to, std::int64_t value) {
  *to = value;
}

// Separate functions: a kernel's lambda cannot be inside a generic one.
template <class Function>
void map_value(cudaStream_t stream, Function function, const float* bottom, float* top,
               std::int64_t count) {
  map<1>(stream, "activation forward", count, {{bottom}}, top,
         [function] __device__(float x) { return function.value(x); });
}

template <class Function>
void map_slope(cudaStream_t stream, Function function, const float* at, const float* top_gradient,
               float* bottom_gradient, std::int64_t count) {
  map<2>(stream, "activation backward", count, {{at, top_gradient}}, bottom_gradient,
         [function] __device__(float v, float dy) { return dy * function.slope(v); });
}

}  // namespace

void fill(cudaStream_t stream, float* to, std::int64_t count, float value) {
  each(stream, "fill", count, [=] __device__(std::int64_t i) { to[i] = value; });
}

void add(cudaStream_t stream, const float* from, float* into, std::int64_t count) {
  map<2>(stream, "add", count, {{into, from}}, into,
         [] __device__(float a, float b) { return a + b; });
}

void multiply(cudaStream_t stream, const float* a, const float* b, float* out, std::int64_t count) {
  map<2>(stream, "multiply", count, {{a, b}}, out,
         [] __device__(float x, float y) { return x * y; });
}

void weighted_sum(cudaStream_t stream, std::span<const Scaled> terms, float* out,
                  std::int64_t count) {
  // Terms whose memory is `out` must be read before out is written: they are taken first.
  std::vector<Scaled> order(terms.begin(), terms.end());
  const auto is_out = [out](const Scaled& term) { return term.values == out; };
  const auto own = std::find_if(order.begin(), order.end(), is_out);
  if (own != order.end()) {
    std::iter_swap(order.begin(), own);
    const auto rest = std::stable_partition(order.begin() + 1, order.end(), std::not_fn(is_out));
    for (auto again = rest; again != order.end(); ++again) order.front().factor += again->factor;
    order.erase(rest, order.end());
  }
  for (std::size_t begin = 0; begin < order.size(); begin += kMaxTerms) {
    Terms part{};
    for (std::size_t k = begin; k < order.size() && part.count < kMaxTerms; ++k) {
      part.at[part.count++] = order[k];
    }
    const bool continues = begin > 0;
    each(stream, "weighted_sum", count, [=] __device__(std::int64_t i) {
      // The first one sets it: adding -0 to 0 would give 0.
      float sum = part.at[0].factor * part.at[0].values[i];
      if (continues) sum = out[i] + sum;
      for (int k = 1; k < part.count; ++k) sum += part.at[k].factor * part.at[k].values[i];
      out[i] = sum;
    });
  }
}

void activation_forward(cudaStream_t stream, const math::Activation& function, const float* bottom,
                        float* top, std::int64_t count) {
  std::visit([&](auto one) { map_value(stream, one, bottom, top, count); }, function);
}

void activation_backward(cudaStream_t stream, const math::Activation& function, const float* at,
                         const float* top_gradient, float* bottom_gradient, std::int64_t count) {
  std::visit([&](auto one) { map_slope(stream, one, at, top_gradient, bottom_gradient, count); },
             function);
}

void gelu_forward(cudaStream_t stream, const float* bottom, float* top, std::int64_t count) {
  map<1>(stream, "gelu forward", count, {{bottom}}, top,
         [] __device__(float x) { return 0.5F * x * (1.0F + erff(x * kRootHalf)); });
}

void gelu_backward(cudaStream_t stream, const float* bottom, const float* top_gradient,
                   float* bottom_gradient, std::int64_t count) {
  map<2>(stream, "gelu backward", count, {{bottom, top_gradient}}, bottom_gradient,
         [] __device__(float x, float dy) {
           const float below = 0.5F * (1.0F + erff(x * kRootHalf));
           return dy * (below + x * kDensityAtZero * expf(-0.5F * x * x));
         });
}

void max_into(cudaStream_t stream, const float* bottom, float* top, std::int64_t count) {
  map<2>(stream, "max", count, {{top, bottom}}, top,
         [] __device__(float best, float x) { return x > best ? x : best; });
}

void max_mask(cudaStream_t stream, const float* own, const float* other, bool own_is_first,
              float* gradient, std::int64_t count) {
  each(stream, "max backward", count, [=] __device__(std::int64_t i) {
    const bool stays = own_is_first ? own[i] >= other[i] : own[i] > other[i];
    if (!stays) gradient[i] = 0;
  });
}

void affine_forward(cudaStream_t stream, const AxisView& view, const float* bottom,
                    const float* factors, const float* summands, float* top) {
  const PlaceOf place(view);
  each(stream, "affine forward", view.count(), [=] __device__(std::int64_t i) {
    const std::int64_t k = place(i);
    float y = bottom[i];
    if (factors != nullptr) y *= factors[k];
    if (summands != nullptr) y += summands[k];
    top[i] = y;
  });
}

void prelu_forward(cudaStream_t stream, const AxisView& view, const float* bottom,
                   const float* slopes, float* top) {
  const PlaceOf place(view);
  each(stream, "prelu forward", view.count(), [=] __device__(std::int64_t i) {
    const float x = bottom[i];
    top[i] = x > 0 ? x : slopes[place(i)] * x;
  });
}

void prelu_backward(cudaStream_t stream, const AxisView& view, const float* bottom,
                    const float* slopes, const float* top_gradient, float* bottom_gradient) {
  const PlaceOf place(view);
  each(stream, "prelu backward", view.count(), [=] __device__(std::int64_t i) {
    const float dy = top_gradient[i];
    bottom_gradient[i] = bottom[i] > 0 ? dy : dy * slopes[place(i)];
  });
}

void dropout(cudaStream_t stream, const DropoutDraw& draw, const std::int64_t* clock,
             const float* from, float* to, std::int64_t count) {
  if (count <= 0) return;
  launch({stream, "dropout", count, blocks_for((count + 3) / 4)}, dropout_kernel, count, draw,
         clock, from, to);
}

void set_number(cudaStream_t stream, std::int64_t* to, std::int64_t value) {
  launch({.stream = stream, .name = "set_number", .elements = 1, .threads = 1}, set_number_kernel,
         to, value);
}

void copy_rows(cudaStream_t stream, const float* from, std::int64_t from_step, float* to,
               std::int64_t to_step, std::int64_t rows, std::int64_t length) {
  if (rows <= 0 || length <= 0) return;
  const bool vector = length % 4 == 0 && from_step % 4 == 0 && to_step % 4 == 0 &&
                      is_aligned(from) && is_aligned(to);
  if (vector) {
    const auto* source = reinterpret_cast<const float4*>(from);
    auto* target = reinterpret_cast<float4*>(to);
    const std::int64_t vectors = length / 4;
    each(stream, "copy_rows", rows * vectors, [=] __device__(std::int64_t i) {
      const std::int64_t row = i / vectors;
      const std::int64_t column = i - row * vectors;
      target[row * (to_step / 4) + column] = source[row * (from_step / 4) + column];
    });
    return;
  }
  each(stream, "copy_rows", rows * length, [=] __device__(std::int64_t i) {
    const std::int64_t row = i / length;
    const std::int64_t column = i - row * length;
    to[row * to_step + column] = from[row * from_step + column];
  });
}

}  // namespace taut::cuda
