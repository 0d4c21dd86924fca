#include <algorithm>
#include <cstddef>
#include <optional>

#include "worker/engine/cpu/dnnl/dnnl.hpp"
#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/own_memory.hpp"
#include "worker/engine/cpu/parallel.hpp"

namespace taut::cpu {
namespace {

/// Three matrix products. The weights stay in Caffe's order: converting a small bottom of images to
/// that order costs less than reordering large weights at every clock.
class InnerProduct final : public LinearOp {
 public:
  explicit InnerProduct(const InnerProductSpec& spec)
      : spec_(spec),
        forward_({.rows = spec.rows,
                  .inner = spec.inputs,
                  .columns = spec.outputs,
                  .transpose_b = !spec.transpose,
                  .bias = spec.bias}),
        backward_bottom_({.rows = spec.rows,
                          .inner = spec.outputs,
                          .columns = spec.inputs,
                          .transpose_b = spec.transpose}),
        backward_weights_({.rows = spec.transpose ? spec.inputs : spec.outputs,
                           .inner = spec.rows,
                           .columns = spec.transpose ? spec.outputs : spec.inputs,
                           .transpose_a = true}) {
    if (!is_channels_last(spec.bottom)) return;
    const ImageShape image = image_shape(spec.bottom);
    rows_ = OwnMemory(image.count());
    to_rows_.emplace(image, dnnl_cpu::ImageOrder::kChannelsFirst);
    from_rows_.emplace(image, dnnl_cpu::ImageOrder::kChannelsLast);
  }

  OpMemory own_memory() const override {
    return {{},
            std::max({bytes_of({&rows_, &forward_.scratch()}),
                      bytes_of({&rows_, &backward_bottom_.scratch()}),
                      bytes_of({&rows_, &backward_weights_.scratch()})})};
  }
  void lend(DeviceSpan<float>, DeviceSpan<float> scratch) override {
    lend_in_turn(scratch, {&rows_, &forward_.scratch()});
    lend_in_turn(scratch, {&rows_, &backward_bottom_.scratch()});
    lend_in_turn(scratch, {&rows_, &backward_weights_.scratch()});
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
               DeviceSpan<const float> bias, DeviceSpan<float> top) override {
    enter(stream);
    forward_.run(as_rows(bottom), weights.address(), bias.address(), top.address());
  }

  void backward_bottom(Stream& stream, DeviceSpan<const float> top_gradient,
                       DeviceSpan<const float> weights,
                       DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    float* target = from_rows_ ? rows_.data() : bottom_gradient.address();
    backward_bottom_.run(top_gradient.address(), weights.address(), nullptr, target);
    if (from_rows_) from_rows_->run(rows_.data(), bottom_gradient.address());
  }

  void backward_parameters(Stream& stream, DeviceSpan<const float> bottom,
                           DeviceSpan<const float> top_gradient, DeviceSpan<float> weights_gradient,
                           DeviceSpan<float> bias_gradient) override {
    enter(stream);
    if (!weights_gradient.empty()) {
      const float* x = as_rows(bottom);
      const float* dy = top_gradient.address();
      backward_weights_.run(spec_.transpose ? x : dy, spec_.transpose ? dy : x, nullptr,
                            weights_gradient.address());
    }
    if (!bias_gradient.empty()) sum_rows(top_gradient.address(), bias_gradient.address());
  }

 private:
  const float* as_rows(DeviceSpan<const float> bottom) {
    if (!to_rows_) return bottom.address();
    to_rows_->run(bottom.address(), rows_.data());
    return rows_.data();
  }

  void sum_rows(const float* matrix, float* sums) const {
    const auto columns = static_cast<std::size_t>(spec_.outputs);
    const auto rows = static_cast<std::size_t>(spec_.rows);
    std::fill_n(sums, columns, 0.0F);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        sums[column] += matrix[row * columns + column];
      }
    }
  }

  InnerProductSpec spec_;
  dnnl_cpu::Matmul forward_;
  dnnl_cpu::Matmul backward_bottom_;
  dnnl_cpu::Matmul backward_weights_;
  OwnMemory rows_;  // the bottom or its gradient in Caffe's order, where that differs
  std::optional<dnnl_cpu::ImageReorder> to_rows_;
  std::optional<dnnl_cpu::ImageReorder> from_rows_;
};

}  // namespace

std::unique_ptr<LinearOp> make_op(const InnerProductSpec& spec) {
  return std::make_unique<InnerProduct>(spec);
}

}  // namespace taut::cpu
