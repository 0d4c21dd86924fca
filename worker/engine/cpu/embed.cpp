#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/parallel.hpp"
#include "worker/engine/data_fault.hpp"

namespace taut::cpu {
namespace {

class Embed final : public EmbedOp {
 public:
  explicit Embed(const EmbedSpec& spec)
      : spec_(spec), width_(static_cast<std::size_t>(spec.outputs)) {}

  void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
               DeviceSpan<const float> bias, DeviceSpan<float> top) override {
    for (std::size_t i = 0; i < bottom.size(); ++i) {
      float* out = top.address() + i * width_;
      std::copy_n(weights.address() + row_of(bottom, i) * width_, width_, out);
      if (bias.empty()) continue;
      for (std::size_t k = 0; k < width_; ++k) out[k] += bias.address()[k];
    }
  }

  void backward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> weights_gradient, DeviceSpan<float> bias_gradient) override {
    std::fill_n(weights_gradient.address(), weights_gradient.size(), 0.0F);
    std::fill_n(bias_gradient.address(), bias_gradient.size(), 0.0F);
    for (std::size_t i = 0; i < bottom.size(); ++i) {
      const float* from = top_gradient.address() + i * width_;
      if (!weights_gradient.empty()) {
        add_row(from, weights_gradient.address() + row_of(bottom, i) * width_);
      }
      if (!bias_gradient.empty()) add_row(from, bias_gradient.address());
    }
  }

 private:
  [[nodiscard]] std::size_t row_of(DeviceSpan<const float> bottom, std::size_t position) const {
    const float number = bottom.address()[position];
    if (number >= 0 && number < static_cast<float>(spec_.inputs)) {
      return static_cast<std::size_t>(number);
    }
    throw std::invalid_argument(row_fault(number, position, spec_.inputs));
  }

  void add_row(const float* from, float* into) const {
    for (std::size_t k = 0; k < width_; ++k) into[k] += from[k];
  }

  EmbedSpec spec_;
  std::size_t width_;
};

class PositionEmbed final : public PositionEmbedOp {
 public:
  explicit PositionEmbed(const SequenceShape& shape)
      : steps_(static_cast<std::size_t>(shape.steps)),
        streams_(static_cast<std::size_t>(shape.streams)),
        channels_(static_cast<std::size_t>(shape.channels)) {}

  void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
               DeviceSpan<float> top) override {
    for (std::size_t row = 0; row < steps_ * streams_; ++row) {
      const float* in = bottom.address() + row * channels_;
      const float* add = weights.address() + row / streams_ * channels_;
      float* out = top.address() + row * channels_;
      for (std::size_t k = 0; k < channels_; ++k) out[k] = in[k] + add[k];
    }
  }

  void backward(Stream&, DeviceSpan<const float> top_gradient, DeviceSpan<float> weights_gradient,
                DeviceSpan<float> bottom_gradient) override {
    if (!weights_gradient.empty()) {
      std::fill_n(weights_gradient.address(), weights_gradient.size(), 0.0F);
      for (std::size_t row = 0; row < steps_ * streams_; ++row) {
        const float* from = top_gradient.address() + row * channels_;
        float* into = weights_gradient.address() + row / streams_ * channels_;
        for (std::size_t k = 0; k < channels_; ++k) into[k] += from[k];
      }
    }
    if (bottom_gradient.empty() || bottom_gradient.address() == top_gradient.address()) return;
    std::copy_n(top_gradient.address(), top_gradient.size(), bottom_gradient.address());
  }

 private:
  std::size_t steps_;
  std::size_t streams_;
  std::size_t channels_;
};

}  // namespace

std::unique_ptr<EmbedOp> make_op(const EmbedSpec& spec) {
  return std::make_unique<Embed>(spec);
}

std::unique_ptr<PositionEmbedOp> make_op(const PositionEmbedSpec& spec) {
  return std::make_unique<PositionEmbed>(spec.shape);
}

}  // namespace taut::cpu
