#include "common/math/update_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/check.hpp"
#include "common/math/finite.hpp"
#include "common/math/update_loops.hpp"

namespace taut::math {
namespace {

// Elements summed at a time: the sum stays in the first-level cache between the two loops.
constexpr std::size_t kBlock = kGradientBlock;
static_assert(kBlock % kCodecBlock == 0);

using Values = std::array<float, kBlock>;

/// The only gradient if it can be used as it is, unencoded and without a factor; else nullptr.
const float* as_it_is(std::span<const GradientView> gradients) {
  if (gradients.size() != 1 || gradients[0].scale != 1.0F) return nullptr;
  if (gradients[0].encoding.codec != Codec::kFloat32) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(gradients[0].bytes);
  return address % alignof(float) == 0 ? reinterpret_cast<const float*>(gradients[0].bytes)
                                       : nullptr;
}

/// What one slice's application reads and writes, block by block.
class BlockWalk {
 public:
  BlockWalk(std::span<const GradientView> gradients, float scale, std::span<const float> values,
            std::span<float> out, std::span<float* const> state)
      : gradients_(gradients),
        scale_(scale),
        values_(values),
        out_(out),
        state_(state),
        single_(as_it_is(gradients)) {}

  /// Calls work(block) for each block, its gradient summed.
  template <class Work>
  void each(Work&& work) {
    each_begin([&](std::size_t begin, std::size_t count) {
      if (single_ == nullptr) sum_gradients(gradients_, begin, std::span(sum_).first(count));
      work(block(single_ == nullptr ? sum_.data() : single_ + begin, begin, count));
    });
  }
  /// As each(), without a gradient: for a second pass.
  template <class Work>
  void each_again(Work&& work) {
    each_begin([&](std::size_t begin, std::size_t count) { work(block(nullptr, begin, count)); });
  }

 private:
  template <class Work>
  void each_begin(Work&& work) {
    for (std::size_t begin = 0; begin < values_.size(); begin += kBlock) {
      work(begin, std::min(kBlock, values_.size() - begin));
    }
  }
  [[nodiscard]] loops::Block block(const float* g, std::size_t begin, std::size_t count) const {
    const auto array = [&](std::size_t i) {
      return i < state_.size() ? state_[i] + begin : nullptr;
    };
    return {g, scale_, values_.data() + begin, out_.data() + begin, array(0), array(1), count};
  }

  std::span<const GradientView> gradients_;
  float scale_;
  std::span<const float> values_;
  std::span<float> out_;
  std::span<float* const> state_;
  const float* single_;
  alignas(64) Values sum_;
};

/// The direction is kept between the passes: computing it again costs a root and a division per
/// element, which takes longer than reading it. [1 MiB for a slice, per thread that applies any]
void apply_by_slice(const loops::SliceLoops& rule, const UpdateStep& step, std::size_t count,
                    BlockWalk& walk) {
  thread_local std::vector<float> directions;
  if (directions.size() < count) directions.resize(count);
  loops::PartedSum of_values{};
  loops::PartedSum of_direction{};
  float* direction = directions.data();
  walk.each([&](const loops::Block& block) {
    rule.gather(step, block, direction, of_values, of_direction);
    direction += block.count;
  });
  const float ratio = rule.ratio(loops::total(of_values), loops::total(of_direction));
  direction = directions.data();
  walk.each_again([&](const loops::Block& block) {
    rule.along(step, ratio, block, direction);
    direction += block.count;
  });
}

}  // namespace

void read_gradient(const GradientView& gradient, std::size_t begin, std::span<float> out) {
  decode(gradient.encoding, gradient.bytes, gradient.count, begin, out);
}

bool all_finite(const GradientView& gradient, std::size_t count) {
  alignas(64) Values values;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const auto part = std::span(values).first(std::min(kBlock, count - begin));
    read_gradient(gradient, begin, part);
    if (!all_finite(std::span<const float>(part))) return false;
  }
  return true;
}

void apply_update(RuleKind kind, const UpdateStep& step, std::span<const GradientView> gradients,
                  float scale, std::span<const float> values, std::span<float> out,
                  std::span<float* const> state) {
  TAUT_CHECK(!gradients.empty() && values.size() == out.size(), "one slice, one gradient or more");
  BlockWalk walk(gradients, scale, values, out, state);
  const loops::RuleLoops& rule = loops::loops_of(kind);
  if (rule.by_slice.gather != nullptr) {
    apply_by_slice(rule.by_slice, step, values.size(), walk);
    return;
  }
  walk.each([&](const loops::Block& block) { rule.by_element(step, block); });
}

void apply_average(std::span<const GradientView> contributions, float share,
                   std::span<const float> values, std::span<float> out) {
  TAUT_CHECK(!contributions.empty() && values.size() == out.size(), "one slice");
  const auto n = static_cast<float>(contributions.size());
  alignas(64) Values sum;
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - begin);
    sum_gradients(contributions, begin, std::span(sum).first(count));
    for (std::size_t i = 0; i < count; ++i) {
      const float old = values[begin + i];
      const float mean = sum[i] / n;
      // An infinite value, as of an attention mask, stays as it is.
      const bool stays = mean == old && std::isinf(old);
      out[begin + i] = stays ? old : old + share * (mean - old);
    }
  }
}

double sum_of_squares(std::span<const float> values) {
  loops::PartedSum sum{};
  loops::add_squares(values.data(), values.size(), sum);
  return loops::total(sum);
}

}  // namespace taut::math
