#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/parallel.hpp"

namespace taut::cpu {
namespace {

using Bottoms = std::span<const DeviceSpan<const float>>;

class Product final : public EltwiseOp {
 public:
  void forward(Stream& stream, Bottoms bottoms, DeviceSpan<float> top) override {
    enter(stream);
    multiply(bottoms, bottoms.size(), top, nullptr);
  }
  void backward(Stream& stream, Bottoms bottoms, std::size_t which,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    multiply(bottoms, which, bottom_gradient, top_gradient.address());
  }

 private:
  /// out = `first` times all bottoms except the one that is left out.
  static void multiply(Bottoms bottoms, std::size_t left_out, DeviceSpan<float> out,
                       const float* first) {
    parallel_ranges(out.size(), kElementGrain, [&](std::size_t begin, std::size_t end) {
      float* y = out.address();
      const float* from = first;
      for (std::size_t k = 0; k < bottoms.size(); ++k) {
        if (k == left_out) continue;
        const float* x = bottoms[k].address();
        if (from == nullptr) {
          from = x;
          continue;
        }
        for (std::size_t i = begin; i < end; ++i) y[i] = from[i] * x[i];
        from = y;
      }
    });
  }
};

class Max final : public EltwiseOp {
 public:
  void forward(Stream& stream, Bottoms bottoms, DeviceSpan<float> top) override {
    enter(stream);
    parallel_ranges(top.size(), kElementGrain, [&](std::size_t begin, std::size_t end) {
      float* y = top.address();
      std::copy(bottoms[0].address() + begin, bottoms[0].address() + end, y + begin);
      for (std::size_t k = 1; k < bottoms.size(); ++k) {
        const float* x = bottoms[k].address();
        for (std::size_t i = begin; i < end; ++i) y[i] = x[i] > y[i] ? x[i] : y[i];
      }
    });
  }
  void backward(Stream& stream, Bottoms bottoms, std::size_t which,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    parallel_ranges(bottom_gradient.size(), kElementGrain, [&](std::size_t begin, std::size_t end) {
      const float* x = bottoms[which].address();
      const float* dy = top_gradient.address();
      float* dx = bottom_gradient.address();
      std::copy(dy + begin, dy + end, dx + begin);
      for (std::size_t k = 0; k < bottoms.size(); ++k) {
        if (k == which) continue;
        const float* other = bottoms[k].address();
        for (std::size_t i = begin; i < end; ++i) {
          const bool stays = k < which ? x[i] > other[i] : x[i] >= other[i];
          dx[i] = stays ? dx[i] : 0;
        }
      }
    });
  }
};

}  // namespace

std::unique_ptr<EltwiseOp> make_op(const EltwiseSpec& spec) {
  if (spec.kind == EltwiseKind::kProduct) return std::make_unique<Product>();
  return std::make_unique<Max>();
}

void weighted_sum(std::span<const Term> terms, DeviceSpan<float> out) {
  TAUT_CHECK(!terms.empty(), "a sum of something");
  for (const Term& term : terms) {
    TAUT_CHECK(term.values.size() == out.size(), "a sum of different sizes");
  }
  // In blocks that stay in the first-level cache, since the terms are added one after the other;
  // a term in the memory of `out` must be read first.
  std::vector<Term> order(terms.begin(), terms.end());
  const auto is_out = [&out](const Term& term) { return term.values.address() == out.address(); };
  const auto own = std::ranges::find_if(order, is_out);
  if (own != order.end()) {
    std::iter_swap(order.begin(), own);
    const auto rest = std::stable_partition(order.begin() + 1, order.end(), std::not_fn(is_out));
    for (auto again = rest; again != order.end(); ++again) order.front().factor += again->factor;
    order.erase(rest, order.end());
  }
  constexpr std::size_t kBlock = 2048;
  parallel_ranges(out.size(), kElementGrain, [&](std::size_t begin, std::size_t end) {
    float* y = out.address();
    for (std::size_t at = begin; at < end; at += kBlock) {
      const std::size_t stop = std::min(at + kBlock, end);
      const float a = order[0].factor;
      const float* first = order[0].values.address();
      for (std::size_t i = at; i < stop; ++i) y[i] = a * first[i];
      for (std::size_t k = 1; k < order.size(); ++k) {
        const float factor = order[k].factor;
        const float* x = order[k].values.address();
        for (std::size_t i = at; i < stop; ++i) y[i] += factor * x[i];
      }
    }
  });
}

}  // namespace taut::cpu
