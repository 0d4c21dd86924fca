#include "common/math/update_loops.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/math/update_rules.hpp"
#include "common/math/vectorised.hpp"

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

/// Rules that keep fewer states than two get one that is never read.
template <class R>
inline void update_elements(const UpdateStep& step, const Block& block, const R& rule) {
  constexpr int kStates = R::kInfo.state_count;
  const auto [g, scale, values, out, first, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float a = 0;
    float b = 0;
    if constexpr (kStates > 0) a = first[i];
    if constexpr (kStates > 1) b = second[i];
    out[i] = rule(step, values[i], g[i] * scale, a, b);
    if constexpr (kStates > 0) first[i] = a;
    if constexpr (kStates > 1) second[i] = b;
  }
}

/// The one loop of all rules. The kind of decay is decided outside of it.
template <class R>
TAUT_VECTORISED void each_element(const UpdateStep& step_in, const Block& block) {
  UpdateStep step = step_in;
  if (step.l1) {
    step.l1 = true;
    update_elements(step, block, R{});
  } else {
    step.l1 = false;
    update_elements(step, block, R{});
  }
}

template <class R>
TAUT_VECTORISED void slice_direction(const UpdateStep& step_in, const Block& block,
                                     float* __restrict direction) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, first, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    float a = first[i];
    float b = second[i];
    R::gather(step, g[i] * scale, a, b);
    direction[i] = R::direction(step, values[i], a, b);
    first[i] = a;
    second[i] = b;
  }
}

template <class R>
void gather_slice(const UpdateStep& step, const Block& block, float* direction,
                  PartedSum& of_values, PartedSum& of_direction) {
  static_assert(R::kInfo.state_count == 2, "the loop reads and writes both states");
  // Small enough that what is read and written is still in the first-level cache when it is
  // squared.
  constexpr std::size_t kPart = 512;
  for (std::size_t begin = 0; begin < block.count; begin += kPart) {
    Block part = block;
    part.g += begin;
    part.values += begin;
    part.first += begin;
    part.second += begin;
    part.count = std::min(kPart, block.count - begin);
    slice_direction<R>(step, part, direction + begin);
    add_squares(part.values, part.count, of_values);
    add_squares(direction + begin, part.count, of_direction);
  }
}

template <class R>
TAUT_VECTORISED void step_along(const UpdateStep& step_in, float ratio, const Block& block,
                                const float* direction) {
  const UpdateStep step = step_in;
  const auto [g, scale, values, out, first, second, count] = block;
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = R::along(step, ratio, values[i], direction[i]);
  }
}

template <class R>
RuleLoops loops_of_rule() {
  RuleLoops loops;
  if constexpr (kIsScaledBySlice<R>) {
    loops.by_slice = {gather_slice<R>, R::ratio, step_along<R>};
  } else {
    loops.by_element = each_element<R>;
  }
  return loops;
}

}  // namespace

const RuleLoops& loops_of(RuleKind kind) {
  static const auto all = [] {
    std::array<RuleLoops, kRuleCount> loops;
    for (std::size_t i = 0; i < kRuleCount; ++i) {
      with_rule(static_cast<RuleKind>(i),
                [&](auto rule) { loops[i] = loops_of_rule<decltype(rule)>(); });
    }
    return loops;
  }();
  return all[static_cast<std::size_t>(kind)];
}

}  // namespace taut::math::loops
