#include "common/math/update_loops.hpp"

#include <algorithm>
#include <cstring>

#include "common/math/update_arithmetic.hpp"

// One body, compiled for each kind of vector unit; the loader picks at start. Contraction is off
// for this room, so that every kind rounds alike.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TAUT_VECTORISED \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TAUT_VECTORISED
#endif

namespace taut::math::loops {
namespace {

inline float load(const std::byte* bytes, std::size_t i) {
  float value;
  std::memcpy(&value, bytes + i * sizeof(float), sizeof value);
  return value;
}

}  // namespace

TAUT_VECTORISED void set_scaled(float* sum, const std::byte* from, float scale, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = scale * load(from, i);
}

TAUT_VECTORISED void add_scaled(float* sum, const std::byte* from, float scale, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] += scale * load(from, i);
}

TAUT_VECTORISED void sgd(const UpdateStep& step_in, const Block& block) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, first, second, count] = block;
  if (step.l1) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i) out[i] = apply_sgd(step, values[i], g[i] * scale);
    return;
  }
  UpdateStep l2 = step;
  l2.l1 = false;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = apply_sgd(l2, values[i], g[i] * scale);
}

TAUT_VECTORISED void momentum(const UpdateStep& step_in, const Block& block) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, velocity, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float v = velocity[i];
    out[i] = apply_momentum(step, values[i], g[i] * scale, v);
    velocity[i] = v;
  }
}

TAUT_VECTORISED void nesterov(const UpdateStep& step_in, const Block& block) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, velocity, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float v = velocity[i];
    out[i] = apply_nesterov(step, values[i], g[i] * scale, v);
    velocity[i] = v;
  }
}

TAUT_VECTORISED void adam(const UpdateStep& step_in, const Block& block) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, first, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float m = first[i];
    float v = second[i];
    out[i] = apply_adam(step, values[i], g[i] * scale, m, v);
    first[i] = m;
    second[i] = v;
  }
}

TAUT_VECTORISED void adagrad(const UpdateStep& step_in, const Block& block) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, squares, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float h = squares[i];
    out[i] = apply_adagrad(step, values[i], g[i] * scale, h);
    squares[i] = h;
  }
}

TAUT_VECTORISED void rmsprop(const UpdateStep& step_in, const Block& block) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, squares, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float h = squares[i];
    out[i] = apply_rmsprop(step, values[i], g[i] * scale, h);
    squares[i] = h;
  }
}

TAUT_VECTORISED void adadelta(const UpdateStep& step_in, const Block& block) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, squares, updates, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float h = squares[i];
    float u = updates[i];
    out[i] = apply_adadelta(step, values[i], g[i] * scale, h, u);
    squares[i] = h;
    updates[i] = u;
  }
}

TAUT_VECTORISED void adamw(const UpdateStep& step_in, const Block& block) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, first, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float m = first[i];
    float v = second[i];
    out[i] = apply_adamw(step, values[i], g[i] * scale, m, v);
    first[i] = m;
    second[i] = v;
  }
}

TAUT_VECTORISED void add_squares(const float* values, std::size_t count, PartedSum& sum) {
  PartedSum parts = sum;
  const std::size_t whole = count - count % parts.size();
  for (std::size_t i = 0; i < whole; i += parts.size()) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const auto value = static_cast<double>(values[i + part]);
      parts[part] += value * value;
    }
  }
  for (std::size_t i = whole; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    parts[i - whole] += value * value;
  }
  sum = parts;
}

double total(const PartedSum& sum) {
  double all = 0;
  for (const double part : sum) all += part;
  return all;
}

namespace {

/// Moments, and the direction that they give.
TAUT_VECTORISED void lamb_direction(const UpdateStep& step_in, const Block& block,
                                    float* __restrict direction) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, first, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float m = first[i];
    float v = second[i];
    gather_moments(step, g[i] * scale, m, v);
    direction[i] = decoupled_direction(step, values[i], m, v);
    first[i] = m;
    second[i] = v;
  }
}

}  // namespace

void lamb_moments(const UpdateStep& step, const Block& block, float* direction,
                  PartedSum& of_values, PartedSum& of_direction) {
  // Small enough that what is read and written is still in the first-level cache when it is squared.
  constexpr std::size_t kPart = 512;
  for (std::size_t begin = 0; begin < block.count; begin += kPart) {
    Block part = block;
    part.g += begin;
    part.values += begin;
    part.first += begin;
    part.second += begin;
    part.count = std::min(kPart, block.count - begin);
    lamb_direction(step, part, direction + begin);
    add_squares(part.values, part.count, of_values);
    add_squares(direction + begin, part.count, of_direction);
  }
}

TAUT_VECTORISED void lamb_step(const UpdateStep& step_in, float trust, const Block& block,
                               const float* direction) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, first, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = apply_lamb(step, trust, values[i], direction[i]);
  }
}

}  // namespace taut::math::loops
