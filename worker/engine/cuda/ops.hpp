#pragma once

#include <memory>

#include "cuda/kernels/elementwise.hpp"
#include "worker/engine/cuda/device.hpp"
#include "worker/engine/ops/list.hpp"

// CUDA's operations. Tensors are in Caffe's order, images as N, C, H, W.
namespace taut::cuda_ops {

// One make_op() for each spec. Errors: std::invalid_argument.
#define TAUT_DECLARE_MAKER(Spec) \
  [[nodiscard]] std::unique_ptr<Spec::Op> make_op(CudaDevice& device, const Spec& spec);
TAUT_EACH_SPEC(TAUT_DECLARE_MAKER)
#undef TAUT_DECLARE_MAKER

/// On cuDNN's kernels over whole sequences; nullptr if they cannot compute this one.
[[nodiscard]] std::unique_ptr<RecurrentOp> make_fused_recurrent(CudaDevice&, const RecurrentSpec&);

[[nodiscard]] inline std::int64_t count_of(const Extents& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}
/// The element count of a span, in the kernels' type.
template <class T>
[[nodiscard]] std::int64_t count_of(DeviceSpan<T> span) {
  return static_cast<std::int64_t>(span.size());
}

/// A view of a tensor along `axes` of its axes from `axis` on.
[[nodiscard]] cuda::AxisView view_along(const Extents& shape, std::size_t axis,
                                        std::size_t axes = 1);

}  // namespace taut::cuda_ops
