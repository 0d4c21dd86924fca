#include <algorithm>
#include <cmath>
#include <cstddef>

#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/own_memory.hpp"
#include "worker/engine/cpu/parallel.hpp"

namespace taut::cpu {
namespace {

/// Keeps the normalised rows for the backward pass: the gradient needs nothing else of the bottom.
class LayerNorm final : public LayerNormOp {
 public:
  explicit LayerNorm(const LayerNormSpec& spec)
      : rows_(static_cast<std::size_t>(spec.rows)),
        columns_(static_cast<std::size_t>(spec.columns)),
        epsilon_(spec.epsilon),
        divisor_(spec.divisor),
        normalised_(rows_ * columns_),
        inverse_(rows_) {}

  OpMemory own_memory() const override { return {bytes_of({&normalised_, &inverse_}), {}}; }
  void lend(DeviceSpan<float> kept, DeviceSpan<float>) override {
    lend_in_turn(kept, {&normalised_, &inverse_});
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> weight,
               DeviceSpan<const float> bias, DeviceSpan<float> top) override {
    enter(stream);
    each_row([&](std::size_t row) {
      const float* x = bottom.address() + row * columns_;
      float* normalised = normalised_.data() + row * columns_;
      float* y = top.address() + row * columns_;
      double sum = 0;
      for (std::size_t k = 0; k < columns_; ++k) sum += x[k];
      const auto mean = static_cast<float>(sum / static_cast<double>(columns_));
      double squares = 0;
      for (std::size_t k = 0; k < columns_; ++k) {
        normalised[k] = x[k] - mean;
        squares += double{normalised[k]} * normalised[k];
      }
      const double variance = squares / static_cast<double>(columns_);
      inverse_[row] = inverse_of(variance);
      for (std::size_t k = 0; k < columns_; ++k) {
        normalised[k] *= inverse_[row];
        y[k] = weight.empty() ? normalised[k]
                              : normalised[k] * weight.address()[k] + bias.address()[k];
      }
    });
  }

  void backward(Stream& stream, DeviceSpan<const float>, DeviceSpan<const float> weight,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> weight_gradient,
                DeviceSpan<float> bias_gradient, DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    std::fill_n(weight_gradient.address(), weight_gradient.size(), 0.0F);
    std::fill_n(bias_gradient.address(), bias_gradient.size(), 0.0F);
    for (std::size_t row = 0; row < rows_; ++row) {
      const float* normalised = normalised_.data() + row * columns_;
      const float* dy = top_gradient.address() + row * columns_;
      for (std::size_t k = 0; k < weight_gradient.size(); ++k) {
        weight_gradient.address()[k] += dy[k] * normalised[k];
      }
      for (std::size_t k = 0; k < bias_gradient.size(); ++k) bias_gradient.address()[k] += dy[k];
    }
    if (bottom_gradient.empty()) return;
    each_row([&](std::size_t row) {
      backward_row(row, top_gradient.address() + row * columns_, weight,
                   bottom_gradient.address() + row * columns_);
    });
  }

 private:
  [[nodiscard]] float inverse_of(double variance) const {
    if (divisor_ == RowDivisor::kOne) return 1;
    const double divisor = divisor_ == RowDivisor::kRootOfSum ? std::sqrt(variance + epsilon_)
                                                              : std::sqrt(variance) + epsilon_;
    return static_cast<float>(1 / divisor);
  }

  template <class Work>
  void each_row(const Work& work) const {
    const std::size_t grain = std::max<std::size_t>(1, kElementGrain / columns_);
    parallel_ranges(rows_, grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) work(row);
    });
  }

  /// With g = dy * weight: dx = (g - mean(g) - normalised * mean(g * normalised)) / deviation.
  void backward_row(std::size_t row, const float* dy, DeviceSpan<const float> weight,
                    float* dx) const {
    const float* normalised = normalised_.data() + row * columns_;
    const auto gradient = [&](std::size_t k) {
      return weight.empty() ? dy[k] : dy[k] * weight.address()[k];
    };
    double sum = 0;
    double along = 0;
    for (std::size_t k = 0; k < columns_; ++k) {
      sum += gradient(k);
      along += double{gradient(k)} * normalised[k];
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(columns_));
    // Without the division the result does not depend on the deviation.
    const auto mean_along = divisor_ == RowDivisor::kOne
                                ? 0.0F
                                : static_cast<float>(along / static_cast<double>(columns_));
    for (std::size_t k = 0; k < columns_; ++k) {
      dx[k] = inverse_[row] * (gradient(k) - mean - normalised[k] * mean_along);
    }
  }

  std::size_t rows_;
  std::size_t columns_;
  double epsilon_;
  RowDivisor divisor_;
  OwnMemory normalised_;
  OwnMemory inverse_;  // 1 / deviation, of each row
};

}  // namespace

std::unique_ptr<LayerNormOp> make_op(const LayerNormSpec& spec) {
  return std::make_unique<LayerNorm>(spec);
}

}  // namespace taut::cpu
