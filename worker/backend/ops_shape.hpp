#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/backend/ops.hpp"

// Operations that move elements, or choose among them, whatever order a device keeps tensors in.
namespace taut {

/// A part of one tensor that is copied into a part of another: all of their axes are alike but one.
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
  Extents shape;
  std::size_t axis = 0;  // it and all that follow are reduced
  ReductionKind kind = ReductionKind::kSum;
  float factor = 1;
};

/// top [shape's extents before `axis`] = factor * the sum over the rest of x, |x| or x^2
/// Source    Caffe, src/caffe/layers/reduction_layer.cpp
class ReductionOp : public DeviceOp {
 public:
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
  /// bottom  keeps its values where the kind is not kSum
  virtual void backward(Stream&, DeviceSpan<const float> bottom,
                        DeviceSpan<const float> top_gradient,
                        DeviceSpan<float> bottom_gradient) = 0;
};

/// What an arg-max writes for the top_k largest, the largest first; of equal ones the lower index.
enum class ArgMaxOutput : std::uint8_t {
  kIndices,
  kValues,
  kBoth,  // indices, then values along axis 1
};

struct ArgMaxSpec {
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
  virtual void forward(Stream&, DeviceSpan<const float> bottom, DeviceSpan<float> top) = 0;
};

}  // namespace taut
