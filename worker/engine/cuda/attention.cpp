#include <algorithm>
#include <cmath>

#include "cuda/kernels/sequence.hpp"
#include "cuda/matmul.hpp"
#include "worker/engine/cuda/ops.hpp"
#include "worker/engine/cuda/own_memory.hpp"
#include "worker/engine/cuda/stream.hpp"

namespace taut::cuda_ops {
namespace {

cuda::AttentionShape shape_of(const AttentionSpec& spec) {
  return {.steps = spec.shape.steps,
          .streams = spec.shape.streams,
          .heads = spec.heads,
          .depth = spec.shape.channels / spec.heads,
          .causal = spec.causal};
}

/// Heads are gathered first, so that all products of one kind are one batch. The weights of each
/// (stream, head) are kept for the backward pass.
class Attention final : public AttentionOp {
 public:
  Attention(CudaDevice& device, const AttentionSpec& spec)
      : shape_(shape_of(spec)),
        scale_(1 / std::sqrt(static_cast<float>(shape_.depth))),
        part_(shape_.pairs() * shape_.steps * shape_.depth),
        squares_(shape_.pairs() * shape_.steps * shape_.steps),
        // [steps, depth] by [depth, steps]; [steps, steps] by [steps, depth]; the same transposed
        scores_(product(device, shape_,
                        {.inner = shape_.depth, .columns = shape_.steps, .transpose_b = true})),
        mixed_(product(device, shape_, {.inner = shape_.steps, .columns = shape_.depth})),
        back_(product(device, shape_,
                      {.inner = shape_.steps, .columns = shape_.depth, .transpose_a = true})),
        packed_(device, 3 * part_, "an attention's heads"),
        weights_(device, squares_, "an attention's weights") {
    if (spec.dropout.ratio == 0) return;
    DropoutSpec dropout = spec.dropout;
    dropout.shape = {shape_.pairs(), shape_.steps, shape_.steps};
    dropout_ = make_op(device, dropout);
    dropped_ = OwnMemory(device, squares_, "an attention's weights");
  }

  OpMemory own_memory() const override {
    return {bytes_of({&packed_, &weights_, &dropped_}),
            scratch_bytes({product_workspace(), bytes(part_), bytes(squares_), bytes(3 * part_)})};
  }
  void lend(DeviceSpan<float> kept, DeviceSpan<float> scratch) override {
    lend_in_turn(kept, {&packed_, &weights_, &dropped_});
    lent_ = scratch;
  }

  void forward(Stream& stream, Clock clock, DeviceSpan<const float> qkv,
               DeviceSpan<const float> mask, DeviceSpan<float> top) override {
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    const auto [workspace, mixed] = own.scratch<2>({product_workspace(), bytes(part_)}, lent_);
    cuda::pack_heads(queue, shape_, 3, qkv.address(), packed(kQueries));
    scores_.run(queue, packed(kQueries), packed(kKeys), nullptr, weights(), workspace, 0, scale_);
    cuda::attention_softmax(queue, shape_, mask.address(), weights());
    if (dropout_) dropout_->forward(stream, clock, weights_.span(), dropped_.span());
    auto* heads = static_cast<float*>(mixed);
    mixed_.run(queue, used_weights(), packed(kValues), nullptr, heads, workspace);
    cuda::unpack_heads(queue, shape_, 1, heads, top.address());
  }

  void backward(Stream& stream, DeviceSpan<const float>, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> qkv_gradient) override {
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    const auto [workspace, dy_part, squares, heads_part] = own.scratch<4>(
        {product_workspace(), bytes(part_), bytes(squares_), bytes(3 * part_)}, lent_);
    auto* dy = static_cast<float*>(dy_part);
    auto* gradients = static_cast<float*>(squares);
    auto* heads = static_cast<float*>(heads_part);
    const auto squares_count = static_cast<std::size_t>(squares_);
    cuda::pack_heads(queue, shape_, 1, top_gradient.address(), dy);
    scores_.run(queue, dy, packed(kValues), nullptr, gradients, workspace);
    back_.run(queue, used_weights(), dy, nullptr, heads + kValues * part_, workspace);
    if (dropout_) {
      const DeviceSpan<float> all(gradients, squares_count);
      dropout_->backward(stream, all, all);
    }
    cuda::attention_softmax_backward(queue, shape_, weights(), gradients);
    mixed_.run(queue, gradients, packed(kKeys), nullptr, heads + kQueries * part_, workspace, 0,
               scale_);
    back_.run(queue, gradients, packed(kQueries), nullptr, heads + kKeys * part_, workspace, 0,
              scale_);
    cuda::unpack_heads(queue, shape_, 3, heads, qkv_gradient.address());
  }

 private:
  enum Part : std::int64_t { kQueries, kKeys, kValues };

  static cuda::Matmul product(CudaDevice& device, const cuda::AttentionShape& shape,
                              cuda::MatmulSpec spec) {
    spec.rows = shape.steps;
    spec.batch = shape.pairs();
    spec.numbers = device.wide_numbers();
    spec.deterministic = device.math().deterministic;
    spec.workspace_limit = device.product_workspace();
    return cuda::Matmul(device.cublas_lt(), spec);
  }
  static std::size_t bytes(std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  }
  [[nodiscard]] std::size_t product_workspace() const {
    return std::max({scores_.workspace(), mixed_.workspace(), back_.workspace()});
  }
  [[nodiscard]] float* packed(Part part) const { return packed_.floats() + part * part_; }
  [[nodiscard]] float* weights() const { return weights_.floats(); }
  [[nodiscard]] const float* used_weights() const {
    return dropout_ ? dropped_.floats() : weights();
  }

  cuda::AttentionShape shape_;
  float scale_;
  std::int64_t part_;     // elements of the queries, the keys or the values
  std::int64_t squares_;  // of the weights
  cuda::Matmul scores_;
  cuda::Matmul mixed_;
  cuda::Matmul back_;
  OwnMemory packed_;   // [3, pairs, steps, depth]
  OwnMemory weights_;  // [pairs, steps, steps]
  OwnMemory dropped_;  // the weights after dropout, if there is any
  std::unique_ptr<DropoutOp> dropout_;
  DeviceSpan<float> lent_;  // scratch memory
};

}  // namespace

std::unique_ptr<AttentionOp> make_op(CudaDevice& device, const AttentionSpec& spec) {
  return std::make_unique<Attention>(device, spec);
}

}  // namespace taut::cuda_ops
