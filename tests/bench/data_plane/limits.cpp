#include "tests/bench/data_plane/limits.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "common/math/update_kernels.hpp"
#include "common/math/update_rules.hpp"
#include "common/net/buffer_pool.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/time.hpp"

namespace taut::bench {
namespace {

double best_of(int times, const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i < times; ++i) {
    const TimePoint begin = steady_now();
    work();
    best = std::min(best, seconds(steady_now() - begin));
  }
  return best;
}

}  // namespace

double memcpy_rate(std::uint64_t bytes) {
  std::vector<std::byte> from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  const int copies = static_cast<int>(std::max<std::uint64_t>(1, (256ULL << 20U) / bytes));
  const double took = best_of(5, [&] {
    for (int i = 0; i < copies; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");
    }
  });
  return static_cast<double>(bytes) * copies / took * 1e-9;
}

std::vector<RuleRate> rule_rates(std::uint64_t bytes) {
  constexpr std::size_t kSlice = SliceLayout::kSliceElements;
  const std::size_t count = bytes / sizeof(float);
  // Aligned as a shard's buffers are.
  BufferPool pool;
  const auto filled = [&](float value) {
    Buffer buffer = pool.acquire(bytes);
    std::ranges::fill(buffer.floats(), value);
    return buffer;
  };
  const Buffer values_buffer = filled(1.0F);
  const Buffer gradient_buffer = filled(1e-6F);
  const Buffer first_buffer = filled(0.0F);
  const Buffer second_buffer = filled(0.0F);
  const auto values = values_buffer.floats();
  const auto gradient = gradient_buffer.floats();
  const auto first = first_buffer.floats();
  const auto second = second_buffer.floats();
  const std::array<float*, 2> state = {first.data(), second.data()};

  const double triad_time = best_of(9, [&] {
    float* a = values.data();
    const float* b = gradient.data();
    asm volatile("" : "+r"(a), "+r"(b) : : "memory");
    for (std::size_t i = 0; i < count; ++i) a[i] = a[i] + 1e-3F * b[i];
  });
  // Bytes that the code names: two reads and a write of each element, in place as the rules are.
  const double triad = 3.0 * static_cast<double>(bytes) / triad_time * 1e-9;

  std::vector<RuleRate> rates;
  for (std::size_t i = 0; i < math::kRuleCount; ++i) {
    const auto kind = static_cast<math::RuleKind>(i);
    const math::RuleInfo& info = math::info_of(kind);
    // Reads and writes of each element.
    const double streams = 3 + 2 * info.state_count;
    math::UpdateRule rule;
    rule.kind = kind;
    rule.momentum = 0.9F;
    rule.weight_decay = 1e-4F;
    const math::UpdateStep step = math::make_step(rule, 1, 1, 1, 1.0, 1);
    // As it is, and clipped: then the update is scaled on its way.
    for (const float clip : {1.0F, 0.5F}) {
      const double took = best_of(9, [&] {
        // Slice by slice, as a shard has them.
        for (std::size_t begin = 0; begin < count; begin += kSlice) {
          const math::GradientView view{gradient_buffer.data() + begin * sizeof(float), clip};
          const std::array<float*, 2> at = {state[0] + begin, state[1] + begin};
          const auto slice = values.subspan(begin, std::min(kSlice, count - begin));
          math::apply_update(kind, step, std::span(&view, 1), 0.5F, slice, slice, at);
        }
      });
      rates.push_back({std::string(info.name) + (clip == 1.0F ? "" : ", clipped"),
                       streams * static_cast<double>(bytes) / took * 1e-9, triad});
    }
  }
  return rates;
}

}  // namespace taut::bench
