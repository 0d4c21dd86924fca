#include "cuda/kernels/elementwise.hpp"

#include <algorithm>
#include <functional>
#include <variant>
#include <vector>

#include "common/math/philox.hpp"
#include "cuda/kernels/along.cuh"
#include "cuda/kernels/pack.cuh"
#include "cuda/kernels/reduce.cuh"

namespace taut::cuda {
namespace {

constexpr int kMaxTerms = 8;  // of one launch
struct Terms {
  Scaled at[kMaxTerms];
  int count;
  bool continues;  // a sum that an earlier launch began
  bool relu;       // at the end
};

constexpr float kRootHalf = 0.70710678F;       // 1 / sqrt(2)
constexpr float kDensityAtZero = 0.39894228F;  // 1 / sqrt(2 pi)

__device__ float dropped(const DropoutDraw& draw, std::uint32_t word, float x, float kept) {
  return math::unit_float(word) < draw.ratio ? 0.0F : x * kept;
}

/// Philox gives four numbers at once, for four neighbours.
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(std::int64_t count, DropoutDraw draw, const std::int64_t* clock,
                   const float* from, float* to, bool aligned) {
  const std::uint64_t first = static_cast<std::uint64_t>(*clock) << 32U;
  const float kept = 1 / (1 - draw.ratio);
  const std::int64_t groups = (count + 3) / 4;
  for (std::int64_t group = first_index(); group < groups; group += index_step()) {
    const math::Philox random =
        math::Philox::at(draw.key, draw.stream, first | static_cast<std::uint64_t>(group));
    if (aligned && 4 * group + 4 <= count) {
      Pack<4> four = load<4>(from, group);
#pragma unroll
      for (int k = 0; k < 4; ++k) four.at[k] = dropped(draw, random.words[k], four.at[k], kept);
      store<4>(four, to, group);
      continue;
    }
    for (int k = 0; k < 4 && 4 * group + k < count; ++k) {
      const std::int64_t i = 4 * group + k;
      to[i] = dropped(draw, random.words[k], from[i], kept);
    }
  }
}

/// The first term sets the sum: adding -0 to 0 would give 0.
template <int kWidth>
__device__ void sum_at(const Terms& terms, float* out, std::int64_t i) {
  Pack<kWidth> sum = load<kWidth>(terms.at[0].values, i);
  Pack<kWidth> before{};
  if (terms.continues) before = load<kWidth>(out, i);
  for (int n = 0; n < kWidth; ++n) {
    sum.at[n] *= terms.at[0].factor;
    if (terms.continues) sum.at[n] = before.at[n] + sum.at[n];
  }
  for (int k = 1; k < terms.count; ++k) {
    const Pack<kWidth> term = load<kWidth>(terms.at[k].values, i);
    for (int n = 0; n < kWidth; ++n) sum.at[n] += terms.at[k].factor * term.at[n];
  }
  for (int n = 0; n < kWidth && terms.relu; ++n) sum.at[n] = math::Relu{0}.value(sum.at[n]);
  store<kWidth>(sum, out, i);
}

__global__ void __launch_bounds__(kThreads)
    weighted_sum_kernel(std::int64_t count, Terms terms, float* out, bool aligned) {
  const std::int64_t vectors = aligned ? count / 4 : 0;
  for (std::int64_t i = first_index(); i < vectors; i += index_step()) sum_at<4>(terms, out, i);
  for (std::int64_t i = vectors * 4 + first_index(); i < count; i += index_step()) {
    sum_at<1>(terms, out, i);
  }
}

template <int kWidth>
__device__ void write_scaled(const Pack<kWidth>& gradient, const ScaledTarget& to, std::int64_t i) {
  if (to.values == nullptr) return;
  Pack<kWidth> own;
  for (int n = 0; n < kWidth; ++n) own.at[n] = to.factor * gradient.at[n];
  store<kWidth>(own, to.values, i);
}

template <int kWidth>
__device__ void divide_gradient(const float* top, const float* top_gradient,
                                const ScaledTarget& first, const ScaledTarget& second,
                                std::int64_t i) {
  const Pack<kWidth> y = load<kWidth>(top, i);
  Pack<kWidth> gradient = load<kWidth>(top_gradient, i);
  for (int n = 0; n < kWidth; ++n) gradient.at[n] *= math::Relu{0}.slope(y.at[n]);
  write_scaled<kWidth>(gradient, first, i);
  write_scaled<kWidth>(gradient, second, i);
}

__global__ void __launch_bounds__(kThreads)
    rectified_sum_backward_kernel(std::int64_t count, const float* top, const float* top_gradient,
                                  ScaledTarget first, ScaledTarget second, bool aligned) {
  const std::int64_t vectors = aligned ? count / 4 : 0;
  for (std::int64_t i = first_index(); i < vectors; i += index_step()) {
    divide_gradient<4>(top, top_gradient, first, second, i);
  }
  for (std::int64_t i = vectors * 4 + first_index(); i < count; i += index_step()) {
    divide_gradient<1>(top, top_gradient, first, second, i);
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
                  std::int64_t count, bool relu) {
  if (count <= 0) return;
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
    bool aligned = is_aligned(out);
    for (std::size_t k = begin; k < order.size() && part.count < kMaxTerms; ++k) {
      part.at[part.count++] = order[k];
      aligned = aligned && is_aligned(order[k].values);
    }
    part.continues = begin > 0;
    part.relu = relu && begin + kMaxTerms >= order.size();
    launch({stream, "weighted_sum", count, blocks_for((count + 3) / 4)}, weighted_sum_kernel, count,
           part, out, aligned);
  }
}

void rectified_sum_backward(cudaStream_t stream, const float* top, const float* top_gradient,
                            const ScaledTarget& first, const ScaledTarget& second,
                            std::int64_t count) {
  if (count <= 0) return;
  const bool aligned = is_aligned(top) && is_aligned(top_gradient) && is_aligned(first.values) &&
                       is_aligned(second.values);
  launch({stream, "rectified_sum_backward", count, blocks_for((count + 3) / 4)},
         rectified_sum_backward_kernel, count, top, top_gradient, first, second, aligned);
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
                    const float* factors, const float* summands, float* top, bool relu) {
  map_along<1>(stream, "affine forward", view, {{bottom}}, top,
               [=] __device__(std::int64_t k, float x) {
                 float y = x;
                 if (factors != nullptr) y *= factors[k];
                 if (summands != nullptr) y += summands[k];
                 return relu ? math::Relu{0}.value(y) : y;
               });
}

void prelu_forward(cudaStream_t stream, const AxisView& view, const float* bottom,
                   const float* slopes, float* top) {
  map_along<1>(stream, "prelu forward", view, {{bottom}}, top,
               [=] __device__(std::int64_t k, float x) { return x > 0 ? x : slopes[k] * x; });
}

void prelu_backward(cudaStream_t stream, const AxisView& view, const float* bottom,
                    const float* slopes, const float* top_gradient, float* bottom_gradient) {
  map_along<2>(
      stream, "prelu backward", view, {{bottom, top_gradient}}, bottom_gradient,
      [=] __device__(std::int64_t k, float x, float dy) { return x > 0 ? dy : dy * slopes[k]; });
}

void prelu_slope_gradients(cudaStream_t stream, const AxisView& view, const float* bottom,
                           const float* top_gradient, float* slopes_gradient, void* scratch) {
  reduce(
      stream, "prelu_slope_gradients", view, scratch,
      [=] __device__(std::int64_t i, std::int64_t, double& first, double&) {
        if (!(bottom[i] > 0)) first += top_gradient[i] * bottom[i];
      },
      [=] __device__(std::int64_t k, const Sums& total) {
        slopes_gradient[k] = static_cast<float>(total.first);
      });
}

void dropout(cudaStream_t stream, const DropoutDraw& draw, const std::int64_t* clock,
             const float* from, float* to, std::int64_t count) {
  if (count <= 0) return;
  launch({stream, "dropout", count, blocks_for((count + 3) / 4)}, dropout_kernel, count, draw,
         clock, from, to, is_aligned(from) && is_aligned(to));
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
    const Divider row_of(vectors, rows * vectors);
    each(stream, "copy_rows", rows * vectors, [=] __device__(std::int64_t i) {
      const std::int64_t row = row_of(i);
      const std::int64_t column = i - row * vectors;
      target[row * (to_step / 4) + column] = source[row * (from_step / 4) + column];
    });
    return;
  }
  const Divider row_of(length, rows * length);
  each(stream, "copy_rows", rows * length, [=] __device__(std::int64_t i) {
    const std::int64_t row = row_of(i);
    const std::int64_t column = i - row * length;
    to[row * to_step + column] = from[row * from_step + column];
  });
}

}  // namespace taut::cuda
