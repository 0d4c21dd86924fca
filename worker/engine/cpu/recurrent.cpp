#include <algorithm>
#include <cstddef>

#include "worker/engine/cpu/dnnl/dnnl.hpp"
#include "worker/engine/cpu/dnnl/gemm.hpp"
#include "worker/engine/cpu/ops.hpp"
#include "worker/engine/cpu/own_memory.hpp"
#include "worker/engine/cpu/parallel.hpp"
#include "worker/engine/cpu/recurrent_cells.hpp"

namespace taut::cpu {
namespace {

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

/// One matrix product for the inputs of all steps, then a small one for each step; the backward
/// pass does the same, with one product for all steps' gradients of the weights at the end. A
/// marker only scales the state, so a sequence may start anywhere.
class Recurrent final : public RecurrentOp {
 public:
  explicit Recurrent(const RecurrentSpec& spec)
      : spec_(spec),
        hidden_(size(spec.hidden)),
        gates_width_(size(gate_count(spec.cell)) * hidden_),
        rows_(size(spec.steps * spec.streams)),
        input_forward_({.rows = spec.steps * spec.streams,
                        .inner = spec.inputs,
                        .columns = gate_count(spec.cell) * spec.hidden,
                        .transpose_b = true,
                        .bias = true}),
        input_backward_({.rows = spec.steps * spec.streams,
                         .inner = gate_count(spec.cell) * spec.hidden,
                         .columns = spec.inputs}),
        input_weight_backward_({.rows = gate_count(spec.cell) * spec.hidden,
                                .inner = spec.steps * spec.streams,
                                .columns = spec.inputs,
                                .transpose_a = true}),
        hidden_forward_({.rows = spec.streams,
                         .inner = spec.hidden,
                         .columns = gate_count(spec.cell) * spec.hidden,
                         .transpose_b = true}),
        hidden_backward_({.rows = spec.streams,
                          .inner = gate_count(spec.cell) * spec.hidden,
                          .columns = spec.hidden}),
        hidden_weight_backward_({.rows = gate_count(spec.cell) * spec.hidden,
                                 .inner = spec.steps * spec.streams,
                                 .columns = spec.hidden,
                                 .transpose_a = true}),
        gates_(rows_ * gates_width_),
        before_(rows_ * hidden_),
        dh_(step() * 2) {
    if (spec.cell == CellKind::kLstm) {
      c_ = OwnMemory(rows_ * hidden_ + step());
      tanh_c_ = OwnMemory(rows_ * hidden_);
      dc_ = OwnMemory(step());
    }
    if (spec.cell == CellKind::kGru) sums_ = OwnMemory(rows_ * gates_width_);
  }

  OpMemory own_memory() const override {
    const Bytes forward = bytes_of(
        {&input_forward_.scratch(), &hidden_forward_.packed(), &hidden_forward_.scratch()});
    const Bytes backward =
        bytes_of({&dh_, &dc_, &hidden_backward_.packed(), &hidden_backward_.scratch(),
                  &input_backward_.scratch(), &input_weight_backward_.scratch(),
                  &hidden_weight_backward_.scratch()});
    return {bytes_of({&gates_, &sums_, &before_, &c_, &tanh_c_}), std::max(forward, backward)};
  }
  void lend(DeviceSpan<float> kept, DeviceSpan<float> scratch) override {
    lend_in_turn(kept, {&gates_, &sums_, &before_, &c_, &tanh_c_});
    lend_in_turn(scratch, {&input_forward_.scratch(), &hidden_forward_.packed(),
                           &hidden_forward_.scratch()});
    lend_in_turn(scratch, {&dh_, &dc_, &hidden_backward_.packed(), &hidden_backward_.scratch(),
                           &input_backward_.scratch(), &input_weight_backward_.scratch(),
                           &hidden_weight_backward_.scratch()});
  }

  void forward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> cont,
               DeviceSpan<const float> constant, const RecurrentParameters<const float>& parameters,
               Updated state, DeviceSpan<float> top) override {
    enter(stream);
    check(bottom, cont, state, top);
    TAUT_CHECK(constant.empty() || constant.size() == streams() * gates_width_,
               "one row of sums for each stream");
    input_forward_.run(bottom.address(), parameters.input_weight.address(),
                       parameters.input_bias.address(), gates_.data());
    if (!constant.empty()) add_to_steps(constant);
    hidden_forward_.pack(parameters.hidden_weight.address());
    if (!c_.empty()) std::copy_n(state.address() + step(), step(), c_.data());
    const float* h_before = state.address();
    for (std::size_t t = 0; t < steps(); ++t) {
      float* before = before_.data() + t * step();
      take_over(h_before, cont, t, before);
      float* sums = gates_.data() + t * gates_width_ * streams();
      if (!sums_.empty()) {
        sums = sums_.data() + t * gates_width_ * streams();
        fill_rows(parameters.hidden_bias.address(), sums);
      }
      hidden_forward_.add(before, sums);
      float* h = top.address() + t * step();
      each_stream([&](std::size_t n) { forward_cell(t, n, marker(cont, t, n), h + n * hidden_); });
      h_before = h;
    }
    std::copy_n(h_before, step(), state.address());
    if (!c_.empty()) std::copy_n(c_.data() + c_.size() - step(), step(), state.address() + step());
  }

  void backward(Stream& stream, DeviceSpan<const float> bottom, DeviceSpan<const float> cont,
                const RecurrentParameters<const float>& parameters,
                DeviceSpan<const float> top_gradient, const RecurrentParameters<float>& gradients,
                DeviceSpan<float> constant_gradient, Updated state_gradient,
                DeviceSpan<float> bottom_gradient) override {
    enter(stream);
    hidden_backward_.pack(parameters.hidden_weight.address());
    take_state_gradient(state_gradient);
    float* dh = dh_.data();  // gradient of this step's h, from above and from later steps
    float* dh_before = dh_.data() + step();  // gradient passed to the previous step
    for (std::size_t t = steps(); t-- > 0;) {
      if (!top_gradient.empty()) {
        const float* from_above = top_gradient.address() + t * step();
        for (std::size_t i = 0; i < step(); ++i) dh[i] += from_above[i];
      }
      std::fill_n(dh_before, step(), 0.0F);
      each_stream([&](std::size_t n) {
        backward_cell(t, n, marker(cont, t, n), dh + n * hidden_, dh_before + n * hidden_);
      });
      hidden_backward_.add(hidden_gradients() + t * gates_width_ * streams(), dh_before);
      if (!cont.empty()) take_over(dh_before, cont, t, dh_before);
      std::swap(dh, dh_before);
    }
    if (!state_gradient.empty()) {
      std::copy_n(dh, step(), state_gradient.address());
      std::copy_n(dc_.data(), dc_.size(), state_gradient.address() + step());
    }
    backward_parameters(bottom, gradients);
    if (!constant_gradient.empty()) sum_steps(constant_gradient);
    if (bottom_gradient.empty()) return;
    input_backward_.run(gates_.data(), parameters.input_weight.address(), nullptr,
                        bottom_gradient.address());
  }

 private:
  [[nodiscard]] std::size_t steps() const { return size(spec_.steps); }
  [[nodiscard]] std::size_t streams() const { return size(spec_.streams); }
  /// Elements of one step's hidden state.
  [[nodiscard]] std::size_t step() const { return streams() * hidden_; }

  void check(DeviceSpan<const float> bottom, DeviceSpan<const float> cont, DeviceSpan<float> state,
             DeviceSpan<float> top) const {
    TAUT_CHECK(bottom.size() == rows_ * size(spec_.inputs) && top.size() == rows_ * hidden_ &&
                   (cont.empty() || cont.size() == rows_) &&
                   state.size() == step() * (c_.empty() ? 1 : 2),
               "a recurrent layer keeps the shapes that it was made for");
  }

  /// The gradient that reaches the last step's state from later batches.
  void take_state_gradient(DeviceSpan<const float> gradient) {
    if (gradient.empty()) {
      std::fill_n(dh_.data(), step(), 0.0F);
      std::fill_n(dc_.data(), dc_.size(), 0.0F);
      return;
    }
    TAUT_CHECK(gradient.size() == step() + dc_.size(), "a state's gradient has the state's shape");
    std::copy_n(gradient.address(), step(), dh_.data());
    std::copy_n(gradient.address() + step(), dc_.size(), dc_.data());
  }

  void add_to_steps(DeviceSpan<const float> constant) {
    const float* summands = constant.address();
    for (std::size_t t = 0; t < steps(); ++t) {
      float* sums = gates_.data() + t * constant.size();
      for (std::size_t i = 0; i < constant.size(); ++i) sums[i] += summands[i];
    }
  }

  /// The gradient of add_to_steps' argument: that of the input's sums, over all steps.
  void sum_steps(DeviceSpan<float> gradient) const {
    float* sum = gradient.address();
    std::copy_n(gates_.data(), gradient.size(), sum);
    for (std::size_t t = 1; t < steps(); ++t) {
      const float* own = gates_.data() + t * gradient.size();
      for (std::size_t i = 0; i < gradient.size(); ++i) sum[i] += own[i];
    }
  }

  [[nodiscard]] float marker(DeviceSpan<const float> cont, std::size_t t, std::size_t n) const {
    return cont.empty() ? 1.0F : cont.address()[t * streams() + n];
  }

  /// The state from which step t starts.
  void take_over(const float* h, DeviceSpan<const float> cont, std::size_t t, float* before) const {
    for (std::size_t n = 0; n < streams(); ++n) {
      const float factor = marker(cont, t, n);
      for (std::size_t k = 0; k < hidden_; ++k)
        before[n * hidden_ + k] = factor * h[n * hidden_ + k];
    }
  }

  void fill_rows(const float* row, float* rows) const {
    for (std::size_t n = 0; n < streams(); ++n)
      std::copy_n(row, gates_width_, rows + n * gates_width_);
  }

  template <class Work>
  void each_stream(const Work& work) const {
    const std::size_t grain = std::max<std::size_t>(1, kElementGrain / (4 * gates_width_));
    parallel_ranges(streams(), grain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t n = begin; n < end; ++n) work(n);
    });
  }

  void forward_cell(std::size_t t, std::size_t n, float cont, float* h) {
    const std::size_t row = t * streams() + n;
    const std::size_t at = row * hidden_;
    float* gates = gates_.data() + row * gates_width_;
    switch (spec_.cell) {
      case CellKind::kRnn:
        return rnn_forward(gates, h, hidden_);
      case CellKind::kLstm:
        return lstm_forward(gates, cont, c_.data() + at, c_.data() + at + step(),
                            tanh_c_.data() + at, h, hidden_);
      case CellKind::kGru:
        return gru_forward(gates, sums_.data() + row * gates_width_, before_.data() + at, h,
                           hidden_);
    }
  }

  void backward_cell(std::size_t t, std::size_t n, float cont, const float* dh, float* dh_before) {
    const std::size_t row = t * streams() + n;
    const std::size_t at = row * hidden_;
    float* gates = gates_.data() + row * gates_width_;
    switch (spec_.cell) {
      case CellKind::kRnn:
        return rnn_backward(gates, dh, hidden_);
      case CellKind::kLstm:
        return lstm_backward(gates, cont, c_.data() + at, tanh_c_.data() + at, dh,
                             dc_.data() + n * hidden_, hidden_);
      case CellKind::kGru: {
        float* sums = sums_.data() + row * gates_width_;
        return gru_backward(gates, sums + 2 * hidden_, before_.data() + at, dh, sums, dh_before,
                            hidden_);
      }
    }
  }

  /// The gradients of the hidden state's sums: a GRU's differ from those of the input's.
  [[nodiscard]] const float* hidden_gradients() const {
    return sums_.empty() ? gates_.data() : sums_.data();
  }

  void backward_parameters(DeviceSpan<const float> bottom,
                           const RecurrentParameters<float>& gradients) {
    if (!gradients.input_weight.empty()) {
      input_weight_backward_.run(gates_.data(), bottom.address(), nullptr,
                                 gradients.input_weight.address());
    }
    if (!gradients.hidden_weight.empty()) {
      hidden_weight_backward_.run(hidden_gradients(), before_.data(), nullptr,
                                  gradients.hidden_weight.address());
    }
    sum_rows(gates_.data(), gradients.input_bias);
    sum_rows(hidden_gradients(), gradients.hidden_bias);
  }

  void sum_rows(const float* matrix, DeviceSpan<float> sums) const {
    if (sums.empty()) return;
    float* sum = sums.address();
    std::fill_n(sum, gates_width_, 0.0F);
    for (std::size_t row = 0; row < rows_; ++row) {
      for (std::size_t k = 0; k < gates_width_; ++k) sum[k] += matrix[row * gates_width_ + k];
    }
  }

  RecurrentSpec spec_;
  std::size_t hidden_;
  std::size_t gates_width_;  // of all gates
  std::size_t rows_;         // steps * streams
  dnnl_cpu::Matmul input_forward_;
  dnnl_cpu::Matmul input_backward_;
  dnnl_cpu::Matmul input_weight_backward_;
  dnnl_cpu::PackedMatmul hidden_forward_;
  dnnl_cpu::PackedMatmul hidden_backward_;
  dnnl_cpu::Matmul hidden_weight_backward_;
  OwnMemory gates_;   // [steps, streams, G hidden]: activated; then the sums' gradients
  OwnMemory sums_;    // a GRU's, of the hidden state; then their gradients
  OwnMemory before_;  // [steps, streams, hidden]: the state from which each step started
  OwnMemory c_;       // [1 + steps, streams, hidden]: an LSTM's
  OwnMemory tanh_c_;
  OwnMemory dh_;  // two of [streams, hidden]
  OwnMemory dc_;
};

}  // namespace

std::unique_ptr<RecurrentOp> make_op(const RecurrentSpec& spec) {
  return std::make_unique<Recurrent>(spec);
}

}  // namespace taut::cpu
