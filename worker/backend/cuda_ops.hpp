#pragma once

#include <memory>

#include "cuda/kernels/elementwise.hpp"
#include "worker/backend/cuda_device.hpp"
#include "worker/backend/ops.hpp"
#include "worker/backend/ops_channel.hpp"
#include "worker/backend/ops_elementwise.hpp"
#include "worker/backend/ops_loss.hpp"
#include "worker/backend/ops_sequence.hpp"
#include "worker/backend/ops_shape.hpp"

// CUDA's operations, one maker for each. Tensors lie in Caffe's order, images as N, C, H, W.
// Errors: std::invalid_argument.
namespace taut::cuda_ops {

[[nodiscard]] std::unique_ptr<LinearOp> make_convolution(CudaDevice&, const ConvolutionSpec&);
[[nodiscard]] std::unique_ptr<LinearOp> make_inner_product(CudaDevice&, const InnerProductSpec&);
[[nodiscard]] std::unique_ptr<PoolingOp> make_pooling(CudaDevice&, const PoolingSpec&);
[[nodiscard]] std::unique_ptr<ActivationOp> make_activation(const ActivationSpec&);
[[nodiscard]] std::unique_ptr<EltwiseOp> make_eltwise(EltwiseKind);
[[nodiscard]] std::unique_ptr<AffineOp> make_affine(const AffineSpec&);
[[nodiscard]] std::unique_ptr<PReluOp> make_prelu(const PReluSpec&);
[[nodiscard]] std::unique_ptr<BatchNormOp> make_batch_norm(CudaDevice&, const BatchNormSpec&);
[[nodiscard]] std::unique_ptr<LrnOp> make_lrn(CudaDevice&, const LrnSpec&);
[[nodiscard]] std::unique_ptr<ReductionOp> make_reduction(const ReductionSpec&);
[[nodiscard]] std::unique_ptr<ArgMaxOp> make_arg_max(const ArgMaxSpec&);
[[nodiscard]] std::unique_ptr<DropoutOp> make_dropout(const DropoutSpec&);
[[nodiscard]] std::unique_ptr<SoftmaxOp> make_softmax(const SoftmaxSpec&);
[[nodiscard]] std::unique_ptr<SoftmaxLossOp> make_softmax_loss(CudaDevice&, const SoftmaxLossSpec&);
[[nodiscard]] std::unique_ptr<PairLossOp> make_pair_loss(CudaDevice&, const PairLossSpec&);
[[nodiscard]] std::unique_ptr<HingeLossOp> make_hinge_loss(const HingeLossSpec&);
[[nodiscard]] std::unique_ptr<ContrastiveLossOp> make_contrastive_loss(const ContrastiveLossSpec&);
[[nodiscard]] std::unique_ptr<AccuracyOp> make_accuracy(const AccuracySpec&);
[[nodiscard]] std::unique_ptr<EmbedOp> make_embed(const EmbedSpec&);
[[nodiscard]] std::unique_ptr<PositionEmbedOp> make_position_embed(const SequenceShape&);
[[nodiscard]] std::unique_ptr<RecurrentOp> make_recurrent(CudaDevice&, const RecurrentSpec&);
/// On cuDNN's kernels over whole sequences; null: they cannot do this one, or not as it is asked for.
[[nodiscard]] std::unique_ptr<RecurrentOp> make_fused_recurrent(CudaDevice&, const RecurrentSpec&);
[[nodiscard]] std::unique_ptr<LayerNormOp> make_layer_norm(CudaDevice&, const LayerNormSpec&);
[[nodiscard]] std::unique_ptr<GeluOp> make_gelu();
[[nodiscard]] std::unique_ptr<AttentionOp> make_attention(CudaDevice&, const AttentionSpec&);

[[nodiscard]] inline std::int64_t count_of(const Extents& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}
/// The elements of a span as kernels count them.
template <class T>
[[nodiscard]] std::int64_t count_of(DeviceSpan<T> span) {
  return static_cast<std::int64_t>(span.size());
}

/// A tensor seen along `axes` of its axes from `axis` on.
[[nodiscard]] cuda::AxisView view_along(const Extents& shape, std::size_t axis,
                                        std::size_t axes = 1);

}  // namespace taut::cuda_ops
