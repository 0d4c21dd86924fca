#pragma once

#include <cstddef>
#include <memory>

#include "worker/backend/ops.hpp"

// The CPU's operations, one maker for each. Errors: std::invalid_argument.
namespace taut::cpu {

[[nodiscard]] std::unique_ptr<PoolingOp> make_average_pooling(const PoolingSpec& spec);
[[nodiscard]] std::unique_ptr<LinearOp> make_inner_product(const InnerProductSpec& spec);
[[nodiscard]] std::unique_ptr<ActivationOp> make_activation(const ActivationSpec& spec);
[[nodiscard]] std::unique_ptr<DropoutOp> make_dropout(const DropoutSpec& spec);
[[nodiscard]] std::unique_ptr<SoftmaxOp> make_softmax(const SoftmaxSpec& spec);
[[nodiscard]] std::unique_ptr<SoftmaxLossOp> make_softmax_loss(const SoftmaxLossSpec& spec);
[[nodiscard]] std::unique_ptr<AccuracyOp> make_accuracy(const AccuracySpec& spec);

/// A tensor in memory, seen along one axis: element (o, k, i) lies at (o * length + k) * inner + i.
/// The pairs (o, i) count the other axes' positions in Caffe's order.
struct AxisView {
  std::size_t outer = 1;
  std::size_t length = 1;
  std::size_t inner = 1;

  [[nodiscard]] std::size_t positions() const { return outer * inner; }
};
[[nodiscard]] AxisView view_along(const Extents& shape, std::size_t axis);

/// out[k] = softmax over k of in[k], both `length` elements `step` apart. May work in place.
void softmax_of(const float* in, float* out, std::size_t length, std::size_t step);

/// An image's shape where its order in memory differs from Caffe's.
[[nodiscard]] bool lies_channels_last(const Extents& shape);
[[nodiscard]] ImageShape image_shape(const Extents& shape);

}  // namespace taut::cpu
