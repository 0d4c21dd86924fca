#include <algorithm>
#include <cmath>
#include <cstddef>

#include "worker/engine/cpu/dnnl/gemm.hpp"
#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/own_memory.hpp"
#include "worker/engine/cpu/parallel.hpp"
#include "worker/engine/cpu/vector_math.hpp"

namespace taut::cpu {
namespace {

using dnnl_cpu::MatrixView;
using dnnl_cpu::multiply;

TAUT_VECTOR_LOOP void exponentials(float* row, float highest, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) row[i] = exp_of(row[i] - highest);
}

/// The weights [steps, steps] of each (stream, head) are kept for the backward pass.
class Attention final : public AttentionOp {
 public:
  explicit Attention(const AttentionSpec& spec)
      : spec_(spec),
        steps_(static_cast<std::size_t>(spec.shape.steps)),
        pairs_(static_cast<std::size_t>(spec.shape.streams * spec.heads)),
        depth_(spec.shape.channels / spec.heads),
        scale_(1 / std::sqrt(static_cast<float>(depth_))),
        weights_(pairs_ * steps_ * steps_),
        gradients_(weights_.size()) {
    if (spec.dropout.ratio == 0) return;
    DropoutSpec dropout = spec.dropout;
    dropout.shape = {spec.shape.streams * spec.heads, spec.shape.steps, spec.shape.steps};
    dropout_ = make_op(dropout);
    dropped_ = OwnMemory(weights_.size());
  }

  OpMemory own_memory() const override {
    const Bytes mask = dropout_ ? dropout_->own_memory().kept : Bytes(0);
    return {Bytes(bytes_of({&weights_, &dropped_}).value() + mask.value()),
            bytes_of({&gradients_})};
  }
  void lend(DeviceSpan<float> kept, DeviceSpan<float> scratch) override {
    lend_in_turn(kept, {&weights_, &dropped_});
    lend_in_turn(scratch, {&gradients_});
    const std::size_t begin = weights_.room() + dropped_.room();
    if (dropout_) dropout_->lend(kept.subspan(begin, kept.size() - begin), {});
  }

  void forward(Stream& stream, Clock clock, DeviceSpan<const float> qkv,
               DeviceSpan<const float> mask, DeviceSpan<float> top) override {
    enter(stream);
    each_pair([&](std::size_t pair) {
      float* weights = square(weights_, pair);
      multiply(spec_.shape.steps, spec_.shape.steps, depth_, scale_, part(qkv, kQueries, pair),
               part(qkv, kKeys, pair, true), weights, spec_.shape.steps);
      for (std::size_t t = 0; t < steps_; ++t) soften(weights + t * steps_, t, pair, mask);
    });
    if (dropout_) {
      dropout_->forward(stream, clock, {weights_.data(), weights_.size()},
                        {dropped_.data(), dropped_.size()});
    }
    each_pair([&](std::size_t pair) {
      multiply(spec_.shape.steps, depth_, spec_.shape.steps, 1,
               {square(used_weights(), pair), spec_.shape.steps}, part(qkv, kValues, pair),
               top.address() + offset(pair, 1), row_step(1));
    });
  }

  void backward(Stream& stream, DeviceSpan<const float> qkv, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> qkv_gradient) override {
    enter(stream);
    each_pair([&](std::size_t pair) {
      const MatrixView dy{top_gradient.address() + offset(pair, 1), row_step(1)};
      multiply(spec_.shape.steps, spec_.shape.steps, depth_, 1, dy, part(qkv, kValues, pair, true),
               square(gradients_, pair), spec_.shape.steps);
      multiply(spec_.shape.steps, depth_, spec_.shape.steps, 1,
               {square(used_weights(), pair), spec_.shape.steps, true}, dy,
               target(qkv_gradient, kValues, pair), row_step(3));
    });
    if (dropout_) {
      dropout_->backward(stream, {gradients_.data(), gradients_.size()},
                         {gradients_.data(), gradients_.size()});
    }
    each_pair([&](std::size_t pair) {
      float* gradients = square(gradients_, pair);
      for (std::size_t t = 0; t < steps_; ++t) {
        soften_backward(square(weights_, pair) + t * steps_, gradients + t * steps_);
      }
      multiply(spec_.shape.steps, depth_, spec_.shape.steps, scale_, {gradients, spec_.shape.steps},
               part(qkv, kKeys, pair), target(qkv_gradient, kQueries, pair), row_step(3));
      multiply(spec_.shape.steps, depth_, spec_.shape.steps, scale_,
               {gradients, spec_.shape.steps, true}, part(qkv, kQueries, pair),
               target(qkv_gradient, kKeys, pair), row_step(3));
    });
  }

 private:
  enum Part : std::uint8_t { kQueries, kKeys, kValues };

  template <class Work>
  void each_pair(const Work& work) const {
    parallel_ranges(pairs_, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t pair = begin; pair < end; ++pair) work(pair);
    });
  }

  [[nodiscard]] float* square(const OwnMemory& of, std::size_t pair) const {
    return of.data() + pair * steps_ * steps_;
  }
  [[nodiscard]] const OwnMemory& used_weights() const { return dropout_ ? dropped_ : weights_; }

  /// Strides in a blob [steps, streams, parts * channels]: from one step to the next, and to the
  /// first element of a pair's stream and head.
  [[nodiscard]] std::int64_t row_step(std::int64_t parts) const {
    return spec_.shape.streams * parts * spec_.shape.channels;
  }
  [[nodiscard]] std::int64_t offset(std::size_t pair, std::int64_t parts) const {
    const auto index = static_cast<std::int64_t>(pair);
    return index / spec_.heads * parts * spec_.shape.channels + index % spec_.heads * depth_;
  }
  [[nodiscard]] MatrixView part(DeviceSpan<const float> qkv, Part which, std::size_t pair,
                                bool transposed = false) const {
    return {qkv.address() + offset(pair, 3) + which * spec_.shape.channels, row_step(3),
            transposed};
  }
  [[nodiscard]] float* target(DeviceSpan<float> qkv, Part which, std::size_t pair) const {
    return qkv.address() + offset(pair, 3) + which * spec_.shape.channels;
  }

  /// Turns the scores of step t into weights.
  void soften(float* row, std::size_t t, std::size_t pair, DeviceSpan<const float> mask) const {
    const std::size_t seen = spec_.causal ? t + 1 : steps_;
    std::fill(row + seen, row + steps_, 0.0F);
    if (!mask.empty()) hide(row, seen, pair, mask);
    const float highest = *std::max_element(row, row + seen);
    if (highest == -kHuge) {
      std::fill_n(row, seen, 0.0F);
      return;
    }
    exponentials(row, highest, seen);
    float sum = 0;
    for (std::size_t i = 0; i < seen; ++i) sum += row[i];
    for (std::size_t i = 0; i < seen; ++i) row[i] /= sum;
  }

  void hide(float* row, std::size_t seen, std::size_t pair, DeviceSpan<const float> mask) const {
    const std::size_t stream = pair / static_cast<std::size_t>(spec_.heads);
    const auto streams = static_cast<std::size_t>(spec_.shape.streams);
    for (std::size_t i = 0; i < seen; ++i) {
      if (mask.address()[i * streams + stream] == 0) row[i] = -kHuge;
    }
  }

  /// gradients  in: with respect to the weights; out: with respect to the scores
  void soften_backward(const float* weights, float* gradients) const {
    float along = 0;
    for (std::size_t i = 0; i < steps_; ++i) along += weights[i] * gradients[i];
    for (std::size_t i = 0; i < steps_; ++i) gradients[i] = weights[i] * (gradients[i] - along);
  }

  static constexpr float kHuge = 3e38F;

  AttentionSpec spec_;
  std::size_t steps_;
  std::size_t pairs_;  // streams * heads
  std::int64_t depth_;
  float scale_;
  OwnMemory weights_;    // [pairs, steps, steps]
  OwnMemory gradients_;  // of the weights, then of the scores
  OwnMemory dropped_;    // the weights after dropout, if there is any
  std::unique_ptr<DropoutOp> dropout_;
};

}  // namespace

std::unique_ptr<AttentionOp> make_op(const AttentionSpec& spec) {
  return std::make_unique<Attention>(spec);
}

}  // namespace taut::cpu
