#include "common/math/update_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "common/check.hpp"

// One body, compiled for each kind of vector unit; the loader picks at start. Contraction is off
// for this room, so that every kind rounds alike.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TAUT_VECTORISED \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TAUT_VECTORISED
#endif

namespace taut::math {
namespace {

// Elements summed at a time: the sum stays in the first-level cache between the two loops.
constexpr std::size_t kBlock = 2048;

inline float load(const std::byte* bytes, std::size_t i) {
  float value;
  std::memcpy(&value, bytes + i * sizeof(float), sizeof value);
  return value;
}

TAUT_VECTORISED void set_scaled(float* sum, const std::byte* from, float scale, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = scale * load(from, i);
}

TAUT_VECTORISED void add_scaled(float* sum, const std::byte* from, float scale, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += scale * load(from, i);
}

// The rules' loops: `g` is the block's summed gradient.
TAUT_VECTORISED void sgd(const UpdateStep& step_in, const float* __restrict g, float scale,
                         const float* values, float* out, std::size_t count) {
  const UpdateStep step = step_in;
  if (step.l1) {
    for (std::size_t i = 0; i < count; ++i) out[i] = apply_sgd(step, values[i], g[i] * scale);
    return;
  }
  UpdateStep l2 = step;
  l2.l1 = false;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = apply_sgd(l2, values[i], g[i] * scale);
}

TAUT_VECTORISED void momentum(const UpdateStep& step_in, const float* __restrict g, float scale,
                              const float* values, float* out, float* __restrict velocity,
                              std::size_t count) {
  const UpdateStep step = step_in;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float v = velocity[i];
    out[i] = apply_momentum(step, values[i], g[i] * scale, v);
    velocity[i] = v;
  }
}

TAUT_VECTORISED void nesterov(const UpdateStep& step_in, const float* __restrict g, float scale,
                              const float* values, float* out, float* __restrict velocity,
                              std::size_t count) {
  const UpdateStep step = step_in;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float v = velocity[i];
    out[i] = apply_nesterov(step, values[i], g[i] * scale, v);
    velocity[i] = v;
  }
}

TAUT_VECTORISED void adam(const UpdateStep& step_in, const float* __restrict g, float scale,
                          const float* values, float* out, float* __restrict first,
                          float* __restrict second, std::size_t count) {
  const UpdateStep step = step_in;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float m = first[i];
    float v = second[i];
    out[i] = apply_adam(step, values[i], g[i] * scale, m, v);
    first[i] = m;
    second[i] = v;
  }
}

void sum_block(std::span<const GradientView> gradients, std::size_t begin, std::size_t count,
               float* sum) {
  const std::size_t offset = begin * sizeof(float);
  set_scaled(sum, gradients[0].bytes + offset, gradients[0].scale, count);
  for (const GradientView& gradient : gradients.subspan(1)) {
    add_scaled(sum, gradient.bytes + offset, gradient.scale, count);
  }
}

/// One gradient that is to be taken as it is needs no sum of its own; nothing where there is more to do.
const float* as_it_is(std::span<const GradientView> gradients) {
  if (gradients.size() != 1 || gradients[0].scale != 1.0F) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(gradients[0].bytes);
  return address % alignof(float) == 0 ? reinterpret_cast<const float*>(gradients[0].bytes)
                                       : nullptr;
}

}  // namespace

void apply_update(RuleKind kind, const UpdateStep& step, std::span<const GradientView> gradients,
                  float scale, std::span<const float> values, std::span<float> out,
                  std::span<float* const> state) {
  TAUT_CHECK(!gradients.empty() && values.size() == out.size(), "one slice, one gradient or more");
  alignas(64) std::array<float, kBlock> sum;
  const float* single = as_it_is(gradients);
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - begin);
    if (single == nullptr) sum_block(gradients, begin, count, sum.data());
    const float* g = single == nullptr ? sum.data() : single + begin;
    const float* from = values.data() + begin;
    float* to = out.data() + begin;
    switch (kind) {
      case RuleKind::kSgd:
        sgd(step, g, scale, from, to, count);
        break;
      case RuleKind::kMomentum:
        momentum(step, g, scale, from, to, state[0] + begin, count);
        break;
      case RuleKind::kNesterov:
        nesterov(step, g, scale, from, to, state[0] + begin, count);
        break;
      case RuleKind::kAdam:
        adam(step, g, scale, from, to, state[0] + begin, state[1] + begin, count);
        break;
    }
  }
}

void apply_average(std::span<const GradientView> contributions, float share,
                   std::span<const float> values, std::span<float> out) {
  TAUT_CHECK(!contributions.empty() && values.size() == out.size(), "one slice");
  const auto n = static_cast<float>(contributions.size());
  alignas(64) std::array<float, kBlock> sum;
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - begin);
    sum_block(contributions, begin, count, sum.data());
    for (std::size_t i = 0; i < count; ++i) {
      const float old = values[begin + i];
      out[begin + i] = old + share * (sum[i] / n - old);
    }
  }
}

double sum_of_squares(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

}  // namespace taut::math
