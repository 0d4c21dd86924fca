#include "cuda/kernels/sequence.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"
#include "cuda/kernels/elementwise.hpp"
#include "cuda/kernels/reduce.hpp"
#include "cuda/matmul.hpp"
#include "worker/engine/cuda/ops.hpp"
#include "worker/engine/cuda/own_memory.hpp"
#include "worker/engine/cuda/stream.hpp"

namespace taut::cuda_ops {
namespace {

class Embed final : public EmbedOp {
 public:
  explicit Embed(const EmbedSpec& spec)
      : shape_{.count = spec.count, .inputs = spec.inputs, .outputs = spec.outputs},
        rows_{.outer = spec.count, .length = spec.outputs, .inner = 1} {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
               DeviceSpan<const float> bias, DeviceSpan<float> top) override {
    CudaStream& own = on(stream);
    cuda::embed_forward(own.enter(), shape_, bottom.address(), weights.address(), bias.address(),
                        top.address(), own.fault());
  }
  void backward(Stream& stream, DeviceSpan<const float> bottom,
                DeviceSpan<const float> top_gradient, DeviceSpan<float> weights_gradient,
                DeviceSpan<float> bias_gradient) override {
    CudaStream& own = on(stream);
    if (!weights_gradient.empty()) {
      cuda::embed_backward(own.enter(), shape_, bottom.address(), top_gradient.address(),
                           weights_gradient.address());
    }
    if (bias_gradient.empty()) return;
    const auto [scratch] = own.scratch<1>({cuda::reduce_scratch(rows_)});
    cuda::channel_sums(own.enter(), rows_, top_gradient.address(), bias_gradient.address(),
                       scratch);
  }

 private:
  cuda::EmbedShape shape_;
  cuda::AxisView rows_;
};

class PositionEmbed final : public PositionEmbedOp {
 public:
  explicit PositionEmbed(const SequenceShape& shape) : shape_(shape) {}

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> weights,
               DeviceSpan<float> top) override {
    cuda::position_embed_forward(on(stream).enter(), shape_.steps, shape_.streams, shape_.channels,
                                 bottom.address(), weights.address(), top.address());
  }
  void backward(Stream& stream, DeviceSpan<const float> top_gradient,
                DeviceSpan<float> weights_gradient, DeviceSpan<float> bottom_gradient) override {
    cudaStream_t queue = on(stream).enter();
    if (!weights_gradient.empty()) {
      cuda::position_embed_backward(queue, shape_.steps, shape_.streams, shape_.channels,
                                    top_gradient.address(), weights_gradient.address());
    }
    if (bottom_gradient.empty() || bottom_gradient.address() == top_gradient.address()) return;
    cuda::check(cudaMemcpyAsync(bottom_gradient.address(), top_gradient.address(),
                                top_gradient.size_bytes().value(), cudaMemcpyDeviceToDevice, queue),
                "cudaMemcpyAsync", "a copy on the device");
  }

 private:
  SequenceShape shape_;
};

/// As the CPU's: one product for the inputs of all steps, then a small one for each step; the
/// backward pass does the same, with one product for the weights' gradients of all steps at the
/// end.
class Recurrent final : public RecurrentOp {
 public:
  Recurrent(CudaDevice& device, const RecurrentSpec& spec)
      : spec_(spec),
        gates_width_(gate_count(spec.cell) * spec.hidden),
        rows_(spec.steps * spec.streams),
        step_{.streams = spec.streams, .hidden = spec.hidden},
        columns_{.outer = rows_, .length = gates_width_, .inner = 1},
        by_step_{.outer = spec.steps, .length = spec.streams * gates_width_, .inner = 1},
        input_forward_(product(device, {.rows = rows_,
                                        .inner = spec.inputs,
                                        .columns = gates_width_,
                                        .transpose_b = true,
                                        .bias = true})),
        input_backward_(
            product(device, {.rows = rows_, .inner = gates_width_, .columns = spec.inputs})),
        input_weights_(product(
            device,
            {.rows = gates_width_, .inner = rows_, .columns = spec.inputs, .transpose_a = true})),
        hidden_forward_(product(device, {.rows = spec.streams,
                                         .inner = spec.hidden,
                                         .columns = gates_width_,
                                         .transpose_b = true})),
        hidden_backward_(
            product(device, {.rows = spec.streams, .inner = gates_width_, .columns = spec.hidden})),
        hidden_weights_(product(
            device,
            {.rows = gates_width_, .inner = rows_, .columns = spec.hidden, .transpose_a = true})),
        gates_(floats(device, rows_ * gates_width_)),
        before_(floats(device, rows_ * spec.hidden)),
        dh_(floats(device, step() * 2)) {
    if (spec.cell == CellKind::kLstm) {
      c_ = floats(device, rows_ * spec.hidden + step());
      tanh_c_ = floats(device, rows_ * spec.hidden);
      dc_ = floats(device, step());
    }
    if (spec.cell == CellKind::kGru) sums_ = floats(device, rows_ * gates_width_);
  }

  OpMemory own_memory() const override {
    return {bytes_of({&gates_, &sums_, &before_, &c_, &tanh_c_, &dh_, &dc_}),
            scratch_bytes({product_workspace(), sums_scratch()})};
  }
  void lend(DeviceSpan<float> kept, DeviceSpan<float> scratch) override {
    lend_in_turn(kept, {&gates_, &sums_, &before_, &c_, &tanh_c_, &dh_, &dc_});
    lent_ = scratch;
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> cont,
               DeviceSpan<const float> constant, const RecurrentParameters<const float>& parameters,
               Updated state, DeviceSpan<float> top) override {
    check(bottom, cont, state, top);
    TAUT_CHECK(constant.empty() || count_of(constant) == by_step_.length,
               "one row of sums for each stream");
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    const auto [workspace] = own.scratch<1>({product_workspace()}, lent_);
    input_forward_.run(queue, bottom.address(), parameters.input_weight.address(),
                       parameters.input_bias.address(), at(gates_), workspace);
    if (!constant.empty()) {
      cuda::affine_forward(queue, by_step_, at(gates_), nullptr, constant.address(), at(gates_));
    }
    if (is_lstm()) copy(queue, state.address() + step(), at(c_), step());
    if (is_gru()) {
      cuda::repeat_row(queue, rows_, gates_width_, parameters.hidden_bias.address(), at(sums_));
    }
    cuda::take_over(queue, step_, state.address(), cont_of(cont, 0), at(before_));
    for (std::int64_t t = 0; t < spec_.steps; ++t) {
      float* sums = at(is_gru() ? sums_ : gates_) + t * spec_.streams * gates_width_;
      hidden_forward_.run(queue, at(before_) + t * step(), parameters.hidden_weight.address(),
                          nullptr, sums, workspace, 1);
      forward_cells(queue, t, cont, top.address() + t * step());
    }
    copy(queue, top.address() + (spec_.steps - 1) * step(), state.address(), step());
    if (is_lstm()) {
      copy(queue, at(c_) + spec_.steps * step(), state.address() + step(), step());
    }
  }

  void backward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> cont,
                const RecurrentParameters<const float>& parameters,
                DeviceSpan<const float> top_gradient, const RecurrentParameters<float>& gradients,
                DeviceSpan<float> constant_gradient, Updated state_gradient,
                DeviceSpan<float> bottom_gradient) override {
    CudaStream& own = on(stream);
    cudaStream_t queue = own.enter();
    const auto [workspace, partial] = own.scratch<2>({product_workspace(), sums_scratch()}, lent_);
    float* dh = at(dh_);                  // gradient of this step's h from later steps
    float* dh_before = at(dh_) + step();  // gradient passed to the previous step
    take_state_gradient(queue, state_gradient, dh);
    for (std::int64_t t = spec_.steps; t-- > 0;) {
      const float* above = top_gradient.empty() ? nullptr : top_gradient.address() + t * step();
      backward_cells(queue, t, cont, above, dh, dh_before);
      const float* sums = hidden_gradients() + t * spec_.streams * gates_width_;
      hidden_backward_.run(queue, sums, parameters.hidden_weight.address(), nullptr, dh_before,
                           workspace, is_gru() ? 1.0F : 0.0F);
      if (!cont.empty()) cuda::take_over(queue, step_, dh_before, cont_of(cont, t), dh_before);
      std::swap(dh, dh_before);
    }
    if (!state_gradient.empty()) {
      copy(queue, dh, state_gradient.address(), step());
      if (is_lstm()) copy(queue, at(dc_), state_gradient.address() + step(), step());
    }
    if (!constant_gradient.empty()) {
      cuda::channel_sums(queue, by_step_, at(gates_), constant_gradient.address(), partial);
    }
    if (!gradients.input_weight.empty()) {
      input_weights_.run(queue, at(gates_), bottom.address(), nullptr,
                         gradients.input_weight.address(), workspace);
    }
    if (!gradients.hidden_weight.empty()) {
      hidden_weights_.run(queue, hidden_gradients(), at(before_), nullptr,
                          gradients.hidden_weight.address(), workspace);
    }
    if (!gradients.input_bias.empty()) {
      cuda::channel_sums(queue, columns_, at(gates_), gradients.input_bias.address(), partial);
    }
    if (!gradients.hidden_bias.empty()) {
      cuda::channel_sums(queue, columns_, hidden_gradients(), gradients.hidden_bias.address(),
                         partial);
    }
    if (bottom_gradient.empty()) return;
    input_backward_.run(queue, at(gates_), parameters.input_weight.address(), nullptr,
                        bottom_gradient.address(), workspace);
  }

 private:
  static OwnMemory floats(CudaDevice& device, std::int64_t count) {
    return {device, count, "a recurrent layer's states"};
  }
  static cuda::Matmul product(CudaDevice& device, cuda::MatmulSpec spec) {
    spec.numbers = device.wide_numbers();
    spec.deterministic = device.math().deterministic;
    spec.workspace_limit = device.product_workspace();
    return cuda::Matmul(device.cublas_lt(), spec);
  }
  [[nodiscard]] std::size_t product_workspace() const {
    return std::max({input_forward_.workspace(), input_backward_.workspace(),
                     input_weights_.workspace(), hidden_forward_.workspace(),
                     hidden_backward_.workspace(), hidden_weights_.workspace()});
  }
  static float* at(const OwnMemory& memory) { return memory.floats(); }
  static void copy(cudaStream_t queue, const float* from, float* to, std::int64_t count) {
    cuda::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(float),
                                cudaMemcpyDeviceToDevice, queue),
                "cudaMemcpyAsync", "a recurrent layer's state");
  }

  [[nodiscard]] bool is_lstm() const { return spec_.cell == CellKind::kLstm; }
  [[nodiscard]] bool is_gru() const { return spec_.cell == CellKind::kGru; }
  /// Elements of one step's hidden state.
  [[nodiscard]] std::int64_t step() const { return spec_.streams * spec_.hidden; }
  /// The markers of a step; nullptr: every step continues.
  [[nodiscard]] const float* cont_of(DeviceSpan<const float> cont, std::int64_t t) const {
    return cont.empty() ? nullptr : cont.address() + t * spec_.streams;
  }

  /// The scratch memory of the sums over rows and over steps, one after the other.
  [[nodiscard]] std::size_t sums_scratch() const {
    return std::max(cuda::reduce_scratch(columns_), cuda::reduce_scratch(by_step_));
  }

  /// The gradient that reaches the last step's state from later batches.
  void take_state_gradient(cudaStream_t queue, DeviceSpan<const float> gradient, float* dh) {
    if (gradient.empty()) {
      cuda::fill(queue, dh, step(), 0);
      if (is_lstm()) cuda::fill(queue, at(dc_), step(), 0);
      return;
    }
    TAUT_CHECK(count_of(gradient) == step() * (is_lstm() ? 2 : 1),
               "a state's gradient has the state's shape");
    copy(queue, gradient.address(), dh, step());
    if (is_lstm()) copy(queue, gradient.address() + step(), at(dc_), step());
  }

  void check(DeviceSpan<const float> bottom, DeviceSpan<const float> cont, DeviceSpan<float> state,
             DeviceSpan<float> top) const {
    TAUT_CHECK(count_of(bottom) == rows_ * spec_.inputs && count_of(top) == rows_ * spec_.hidden &&
                   (cont.empty() || count_of(cont) == rows_) &&
                   count_of(state) == step() * (is_lstm() ? 2 : 1),
               "a recurrent layer keeps the shapes that it was made for");
  }

  void forward_cells(cudaStream_t queue, std::int64_t t, DeviceSpan<const float> cont, float* h) {
    const bool is_last = t + 1 == spec_.steps;
    const float* next_cont = is_last ? nullptr : cont_of(cont, t + 1);
    float* next = is_last ? nullptr : at(before_) + (t + 1) * step();
    float* gates = at(gates_) + t * spec_.streams * gates_width_;
    switch (spec_.cell) {
      case CellKind::kRnn:
        return cuda::rnn_step(queue, step_, gates, h, next_cont, next);
      case CellKind::kLstm:
        return cuda::lstm_step(queue, step_, gates, cont_of(cont, t), at(c_) + t * step(),
                               at(c_) + (t + 1) * step(), at(tanh_c_) + t * step(), h, next_cont,
                               next);
      case CellKind::kGru:
        return cuda::gru_step(queue, step_, gates, at(sums_) + t * spec_.streams * gates_width_,
                              at(before_) + t * step(), h, next_cont, next);
    }
  }

  void backward_cells(cudaStream_t queue, std::int64_t t, DeviceSpan<const float> cont,
                      const float* above, const float* dh, float* dh_before) {
    float* gates = at(gates_) + t * spec_.streams * gates_width_;
    switch (spec_.cell) {
      case CellKind::kRnn:
        return cuda::rnn_step_backward(queue, step_, gates, above, dh);
      case CellKind::kLstm:
        return cuda::lstm_step_backward(queue, step_, gates, cont_of(cont, t), at(c_) + t * step(),
                                        at(tanh_c_) + t * step(), above, dh, at(dc_));
      case CellKind::kGru:
        return cuda::gru_step_backward(queue, step_, gates,
                                       at(sums_) + t * spec_.streams * gates_width_,
                                       at(before_) + t * step(), above, dh, dh_before);
    }
  }

  /// The gradients of the hidden state's sums: a GRU's differ from those of the input's.
  [[nodiscard]] const float* hidden_gradients() const { return at(is_gru() ? sums_ : gates_); }

  RecurrentSpec spec_;
  std::int64_t gates_width_;  // of all gates
  std::int64_t rows_;         // steps * streams
  cuda::StepShape step_;
  cuda::AxisView columns_;  // of the gates
  cuda::AxisView by_step_;  // the gates, a whole step as one row
  cuda::Matmul input_forward_;
  cuda::Matmul input_backward_;
  cuda::Matmul input_weights_;
  cuda::Matmul hidden_forward_;
  cuda::Matmul hidden_backward_;
  cuda::Matmul hidden_weights_;
  OwnMemory gates_;   // [steps, streams, G hidden]: activated; then the sums' gradients
  OwnMemory sums_;    // a GRU's, of the hidden state; then their gradients
  OwnMemory before_;  // [steps, streams, hidden]: the state from which each step started
  OwnMemory c_;       // [1 + steps, streams, hidden]: an LSTM's
  OwnMemory tanh_c_;
  OwnMemory dh_;  // two of [streams, hidden]
  OwnMemory dc_;
  DeviceSpan<float> lent_;  // scratch memory
};

}  // namespace

std::unique_ptr<EmbedOp> make_op(CudaDevice&, const EmbedSpec& spec) {
  return std::make_unique<Embed>(spec);
}
std::unique_ptr<PositionEmbedOp> make_op(CudaDevice&, const PositionEmbedSpec& spec) {
  return std::make_unique<PositionEmbed>(spec.shape);
}
std::unique_ptr<RecurrentOp> make_op(CudaDevice& device, const RecurrentSpec& spec) {
  if (auto fused = make_fused_recurrent(device, spec)) return fused;
  return std::make_unique<Recurrent>(device, spec);
}

}  // namespace taut::cuda_ops
