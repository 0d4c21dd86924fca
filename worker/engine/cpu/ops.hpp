#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "worker/engine/ops/list.hpp"
#include "worker/engine/ops/update.hpp"

// The CPU's operations.
namespace taut::cpu {

// One make_op() for each spec. Errors: std::invalid_argument.
#define TAUT_DECLARE_MAKER(Spec) [[nodiscard]] std::unique_ptr<Spec::Op> make_op(const Spec& spec);
TAUT_EACH_SPEC(TAUT_DECLARE_MAKER)
#undef TAUT_DECLARE_MAKER

/// As Backend's functions. They run on the caller's number of threads.
void weighted_sum(std::span<const Term> terms, DeviceSpan<float> out);
void copy_part(const PartCopy& part, const float* from, float* to);
void reshape(const Extents& from_shape, const Extents& to_shape, DeviceSpan<const float> from,
             DeviceSpan<float> to);
void apply_update(const DeviceUpdate& update, std::span<const DeviceGradient> gradients,
                  DeviceSpan<float> values, std::span<const DeviceSpan<float>> state);
void apply_average(std::span<const DeviceGradient> contributions, float share,
                   DeviceSpan<float> values);
/// As Backend::encode().
void encode(const SliceEncoding& how, std::span<const float> values, std::span<float> out,
            std::span<float> state);
[[nodiscard]] double sum_of_squares(std::span<const DeviceSpan<const float>> of);

/// The class that a label names. Errors: std::invalid_argument: no class, or NaN.
[[nodiscard]] std::size_t class_of(float label, std::size_t position, std::size_t classes);
[[nodiscard]] bool ignores(const std::optional<std::int64_t>& ignore_label, float label);
/// The divisor of a loss's sum, at least 1, from the numbers of positions, of positions that are
/// not ignored, and of records.
[[nodiscard]] double loss_divisor(Normalization normalization, std::size_t all, std::size_t counted,
                                  std::size_t batch);

/// A tensor in memory, viewed along one axis: element (o, k, i) is at (o * length + k) * inner + i.
/// The pairs (o, i) number the other axes' positions in Caffe's order.
struct AxisView {
  std::size_t outer = 1;
  std::size_t length = 1;
  std::size_t inner = 1;

  [[nodiscard]] std::size_t positions() const { return outer * inner; }
};
[[nodiscard]] AxisView view_along(const Extents& shape, std::size_t axis);

/// out[k] = softmax over k of in[k], both `length` elements `step` apart. May work in place.
void softmax_of(const float* in, float* out, std::size_t length, std::size_t step);

/// Whether a tensor's order in memory differs from Caffe's: images of several channels and pixels.
[[nodiscard]] bool is_channels_last(const Extents& shape);
[[nodiscard]] ImageShape image_shape(const Extents& shape);

}  // namespace taut::cpu
