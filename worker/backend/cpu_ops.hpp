#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "worker/backend/ops.hpp"
#include "worker/backend/ops_channel.hpp"
#include "worker/backend/ops_elementwise.hpp"
#include "worker/backend/ops_loss.hpp"
#include "worker/backend/ops_shape.hpp"
#include "worker/backend/ops_update.hpp"

// The CPU's operations, one maker for each. Errors: std::invalid_argument.
namespace taut::cpu {

[[nodiscard]] std::unique_ptr<PoolingOp> make_average_pooling(const PoolingSpec& spec);
[[nodiscard]] std::unique_ptr<LinearOp> make_inner_product(const InnerProductSpec& spec);
[[nodiscard]] std::unique_ptr<ActivationOp> make_activation(const ActivationSpec& spec);
[[nodiscard]] std::unique_ptr<DropoutOp> make_dropout(const DropoutSpec& spec);
[[nodiscard]] std::unique_ptr<SoftmaxOp> make_softmax(const SoftmaxSpec& spec);
[[nodiscard]] std::unique_ptr<SoftmaxLossOp> make_softmax_loss(const SoftmaxLossSpec& spec);
[[nodiscard]] std::unique_ptr<AccuracyOp> make_accuracy(const AccuracySpec& spec);
[[nodiscard]] std::unique_ptr<EltwiseOp> make_eltwise(EltwiseKind kind);
[[nodiscard]] std::unique_ptr<AffineOp> make_affine(const AffineSpec& spec);
[[nodiscard]] std::unique_ptr<PReluOp> make_prelu(const PReluSpec& spec);
[[nodiscard]] std::unique_ptr<BatchNormOp> make_batch_norm(const BatchNormSpec& spec);
[[nodiscard]] std::unique_ptr<ReductionOp> make_reduction(const ReductionSpec& spec);
[[nodiscard]] std::unique_ptr<ArgMaxOp> make_arg_max(const ArgMaxSpec& spec);
[[nodiscard]] std::unique_ptr<PairLossOp> make_pair_loss(const PairLossSpec& spec);
[[nodiscard]] std::unique_ptr<HingeLossOp> make_hinge_loss(const HingeLossSpec& spec);
[[nodiscard]] std::unique_ptr<ContrastiveLossOp> make_contrastive_loss(
    const ContrastiveLossSpec& spec);

/// As Backend's. They run on the caller's number of threads.
void weighted_sum(std::span<const Term> terms, DeviceSpan<float> out);
void copy_part(const PartCopy& part, const float* from, float* to);
void reshape(const Extents& from_shape, const Extents& to_shape, DeviceSpan<const float> from,
             DeviceSpan<float> to);
void apply_update(const DeviceUpdate& update, std::span<const DeviceGradient> gradients,
                  DeviceSpan<float> values, std::span<const DeviceSpan<float>> state);
void apply_average(std::span<const DeviceGradient> contributions, float share,
                   DeviceSpan<float> values);
[[nodiscard]] double sum_of_squares(std::span<const DeviceSpan<const float>> of);

/// The class that a label names. Errors: std::invalid_argument; a NaN is no class either.
[[nodiscard]] std::size_t class_of(float label, std::size_t position, std::size_t classes);
[[nodiscard]] bool ignores(const std::optional<std::int64_t>& ignore_label, float label);
/// What a loss's sum is divided by, at least 1. `all` positions, `counted` ones that are not
/// ignored, `batch` records.
[[nodiscard]] double loss_divisor(Normalization normalization, std::size_t all, std::size_t counted,
                                  std::size_t batch);

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
