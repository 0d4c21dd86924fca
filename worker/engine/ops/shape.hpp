#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "worker/engine/ops/ops.hpp"

// Operations that move elements, or choose among them, independent of a device's tensor order.
namespace taut {

/// A part of one tensor that is copied into a part of another; all of their axes but one are equal.
struct PartCopy {
  Extents from;
  Extents to;
  std::size_t axis = 0;
  std::int64_t from_offset = 0;  // along the axis
  std::int64_t to_offset = 0;
  std::int64_t length = 0;
};

enum class ReductionKind : std::uint8_t { kSum, kAbsoluteSum, kSquareSum };

struct ReductionSpec {
  using Op = class ReductionOp;
  Extents shape;
  std::size_t axis = 0;  // this axis and all after it are reduced
  ReductionKind kind = ReductionKind::kSum;
  float factor = 1;

  /// Whether backward reads the bottom, which must then keep its values.
  [[nodiscard]] constexpr bool reads_bottom() const { return kind != ReductionKind::kSum; }
};

/// top [shape's extents before `axis`] = factor * the sum over the rest of x, |x| or x^2
/// Source    Caffe, src/caffe/layers/reduction_layer.cpp
class ReductionOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "reduction";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  using Bottom = ReadIf<&ReductionSpec::reads_bottom>;
  virtual void backward(Stream&, Bottom bottom, DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

/// What an arg-max writes for the top_k largest elements, largest first; ties: lower index first.
enum class ArgMaxOutput : std::uint8_t {
  kIndices,
  kValues,
  kBoth,  // indices, then values along axis 1
};

struct ArgMaxSpec {
  using Op = class ArgMaxOp;
  Extents bottom;
  Extents top;
  /// The axis along which elements are ranked.
  std::size_t axis = 1;
  /// Instead of along an axis, all of a record's elements are ranked, numbered in Caffe's order;
  /// axis 2 of the top holds them.
  bool whole_record = false;
  std::int64_t top_k = 1;
  ArgMaxOutput output = ArgMaxOutput::kIndices;
};

/// Source    Caffe, src/caffe/layers/argmax_layer.cpp
class ArgMaxOp : public DeviceOp {
 public:
  static constexpr std::string_view kName = "arg-max";
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
};

#define TAUT_SHAPE_SPECS(X) X(ReductionSpec) X(ArgMaxSpec)

}  // namespace taut
