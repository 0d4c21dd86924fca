#include "cuda/recurrent.hpp"

#include "common/check.hpp"
#include "cuda/kernels/sequence.hpp"
#include "worker/engine/cuda/ops.hpp"
#include "worker/engine/cuda/own_memory.hpp"
#include "worker/engine/cuda/stream.hpp"

namespace taut::cuda_ops {
namespace {

cuda::Cell cell_of(CellKind cell) {
  switch (cell) {
    case CellKind::kRnn:
      return cuda::Cell::kRnn;
    case CellKind::kLstm:
      return cuda::Cell::kLstm;
    case CellKind::kGru:
      return cuda::Cell::kGru;
  }
  TAUT_CHECK(false, "a recurrent layer of no kind");
}

template <class T>
cuda::RecurrentTables<T> tables_of(const RecurrentParameters<T>& parameters) {
  return {parameters.input_weight.address(), parameters.input_bias.address(),
          parameters.hidden_weight.address(), parameters.hidden_bias.address()};
}

/// All steps in one cuDNN call. Markers scale only the state before the first step. The weights are
/// converted to cuDNN's order at each call, in scratch memory: that costs less than storing them
/// twice.
class FusedRecurrent final : public RecurrentOp {
 public:
  FusedRecurrent(CudaDevice& device, const RecurrentSpec& spec, const cuda::RecurrentShape& shape)
      : spec_(spec),
        layer_(device.cudnn(), shape),
        step_{.streams = spec.streams, .hidden = spec.hidden},
        rows_(spec.steps * spec.streams),
        state_count_(shape.state_count()),
        reserve_(device, floats_of(layer_.reserve()), "what a recurrent layer keeps"),
        outputs_(device, rows_ * spec.hidden, "a recurrent layer's outputs"),
        began_(device, state_count_, "a recurrent layer's states") {}

  OpMemory own_memory() const override {
    return {
        bytes_of({&reserve_, &outputs_, &began_}),
        scratch_bytes({layer_.workspace(), layer_.weight_bytes(), bottom_bytes()}),
    };
  }
  void lend(DeviceSpan<float> kept, DeviceSpan<float> scratch) override {
    lend_in_turn(kept, {&reserve_, &outputs_, &began_});
    lent_ = scratch;
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> cont,
               DeviceSpan<const float> constant, const RecurrentParameters<const float>& parameters,
               Updated state, DeviceSpan<float> top) override {
    TAUT_CHECK(constant.empty(), "constant sums that were not requested");
    TAUT_CHECK(count_of(bottom) == rows_ * spec_.inputs && count_of(top) == rows_ * spec_.hidden &&
                   (cont.empty() || count_of(cont) == rows_) && count_of(state) == state_count_,
               "a recurrent layer keeps the shapes that it was made for");
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    const auto [workspace, weights] =
        own.scratch<2>({layer_.workspace(), layer_.weight_bytes()}, lent_);
    begin(queue, cont, state);
    layer_.pack(own.cudnn(), queue, tables_of(parameters), weights);
    // Separate from the top: backward reads it, and the top's reader may overwrite the top.
    layer_.forward(call_on(own, bottom, workspace), weights, outputs_.floats(), state.address());
    cuda::check(cudaMemcpyAsync(top.address(), outputs_.floats(), top.size_bytes().value(),
                                cudaMemcpyDeviceToDevice, queue),
                "cudaMemcpyAsync", "a recurrent layer's outputs");
  }

  void backward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> /*cont*/,
                const RecurrentParameters<const float>& parameters,
                DeviceSpan<const float> top_gradient, const RecurrentParameters<float>& gradients,
                DeviceSpan<float> constant_gradient, Updated state_gradient,
                DeviceSpan<float> bottom_gradient) override {
    TAUT_CHECK(constant_gradient.empty() && state_gradient.empty() && !top_gradient.empty(),
               "gradients of a state or of constant sums, which were not requested");
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    const auto [workspace, weights, unwanted] = own.scratch<3>(
        {layer_.workspace(), layer_.weight_bytes(), bottom_gradient.empty() ? bottom_bytes() : 0},
        lent_);
    const cuda::Recurrent::Call call = call_on(own, bottom, workspace);
    layer_.pack(own.cudnn(), queue, tables_of(parameters), weights);
    // The weights' gradients depend on this call, even if its own result is not requested.
    layer_.backward_bottom(
        call, weights, outputs_.floats(), top_gradient.address(),
        bottom_gradient.empty() ? static_cast<float*>(unwanted) : bottom_gradient.address());
    const bool any = !gradients.input_weight.empty() || !gradients.input_bias.empty() ||
                     !gradients.hidden_weight.empty() || !gradients.hidden_bias.empty();
    if (!any) return;
    // Their memory is free again.
    layer_.backward_weights(call, queue, outputs_.floats(), weights);
    layer_.unpack(own.cudnn(), queue, weights, tables_of(gradients));
  }

 private:
  static std::int64_t floats_of(std::size_t bytes) {
    return static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
  }
  [[nodiscard]] std::size_t bottom_bytes() const {
    return static_cast<std::size_t>(rows_ * spec_.inputs) * sizeof(float);
  }

  /// The state before the first step, kept for the backward pass.
  void begin(cudaStream_t queue, DeviceSpan<const float> cont, DeviceSpan<float> state) {
    const float* const first = cont.empty() ? nullptr : cont.address();
    const std::int64_t each = step_.streams * step_.hidden;
    for (std::int64_t part = 0; part < state_count_; part += each) {
      cuda::take_over(queue, step_, state.address() + part, first, began_.floats() + part);
    }
  }

  [[nodiscard]] cuda::Recurrent::Call call_on(CudaStream& own, DeviceSpan<const float> bottom,
                                              void* workspace) const {
    return {.library = own.cudnn(),
            .bottom = bottom.address(),
            .state = began_.floats(),
            .workspace = workspace,
            .reserve = reserve_.floats()};
  }

  RecurrentSpec spec_;
  cuda::Recurrent layer_;
  cuda::StepShape step_;
  std::int64_t rows_;  // steps * streams
  std::int64_t state_count_;
  OwnMemory reserve_;       // cuDNN's own
  OwnMemory outputs_;       // [steps, streams, hidden]
  OwnMemory began_;         // the state before the first step
  DeviceSpan<float> lent_;  // scratch memory
};

}  // namespace

std::unique_ptr<RecurrentOp> make_fused_recurrent(CudaDevice& device, const RecurrentSpec& spec) {
  // cuDNN does not guarantee that its recurrent layers compute the same bits in every run.
  const bool can = spec.resets == Resets::kAtStart && !spec.constant && !spec.state_gradient &&
                   !device.math().deterministic && spec.steps <= cuda::RecurrentShape::kMaxSteps;
  if (!can) return nullptr;
  return std::make_unique<FusedRecurrent>(device, spec,
                                          cuda::RecurrentShape{.cell = cell_of(spec.cell),
                                                               .steps = spec.steps,
                                                               .streams = spec.streams,
                                                               .inputs = spec.inputs,
                                                               .hidden = spec.hidden,
                                                               .numbers = device.wide_numbers()});
}

}  // namespace taut::cuda_ops
