#include <utility>
#include <vector>

#include "worker/layers/layer_makers.hpp"
#include "worker/model/rules/recurrent_ports.hpp"

namespace taut::layers {
namespace {

/// The parts and options of a recurrent layer.
struct RecurrentSetup {
  RecurrentSpec first;  // of the lowest of its layers
  std::size_t layers = 1;
  std::size_t top = 0;  // elements of the output
  DropoutSpec dropout;
  bool carries = false;
  model::RecurrentPorts ports;
  std::unique_ptr<LinearOp> constant;  // of x_static; nullptr if absent
  std::unique_ptr<LinearOp> outputs;   // nullptr: the hidden state is the output
};

/// Stacked recurrent layers, with dropout between them, and after an RNN's hidden state Caffe's
/// tanh(W_ho h + b_o). The output is all steps, or the last one. Each layer keeps its state: with
/// cont markers a batch continues from it, without them it starts from zeros; or the states are
/// bottoms and tops. A bottom that is constant over time needs only one product for all steps of
/// the first layer.
class Recurrent final : public Layer {
 public:
  Recurrent(Backend& backend, RecurrentSetup setup)
      : backend_(backend),
        carries_(setup.carries),
        blobs_(setup.ports),
        step_(static_cast<std::size_t>(setup.first.streams * setup.first.hidden)),
        parameters_each_(setup.first.cell == CellKind::kGru ? 4 : 3),
        constant_(std::move(setup.constant)),
        outputs_(std::move(setup.outputs)) {
    const RecurrentSpec& first = setup.first;
    const std::size_t state = step_ * (first.cell == CellKind::kLstm ? 2 : 1);
    const std::size_t all = static_cast<std::size_t>(first.steps) * step_;
    const std::unique_ptr<Stream> stream = backend.make_stream();
    for (std::size_t i = 0; i < setup.layers; ++i) {
      RecurrentSpec spec = first;
      if (i > 0) spec.inputs = first.hidden;
      spec.constant = i == 0 && constant_ != nullptr;
      spec.state_gradient = blobs_.states > 0;
      Part& part = parts_.emplace_back();
      part.op = backend.make(spec);
      part.state = backend.allocate_floats(state, "a recurrent layer's state");
      backend.fill(*stream, part.state.as<float>(), 0);
      const bool is_top = i + 1 == setup.layers && outputs_ == nullptr && setup.top == all;
      if (is_top) continue;
      part.top = backend.allocate_floats(all, "a recurrent layer's outputs");
      part.top_gradient = backend.allocate_floats(all, BufferKind::kGradient,
                                                  "gradient of a recurrent layer's outputs");
      if (i + 1 == setup.layers || setup.dropout.ratio == 0) continue;
      DropoutSpec own = setup.dropout;
      own.layer |= static_cast<std::uint32_t>(i + 1) << 24U;  // a net has fewer layers than that
      part.dropout = backend.make(own);
    }
    if (outputs_ != nullptr) {
      bound_ = backend.make(ActivationSpec{.kind = ActivationKind::kTanH});
      sums_gradient_ = backend.allocate_floats(setup.top, BufferKind::kGradient,
                                               "gradient of a recurrent layer's sums");
    }
    if (constant_ != nullptr) {
      const auto sums =
          static_cast<std::size_t>(first.streams * gate_count(first.cell) * first.hidden);
      constant_sums_ = backend.allocate_floats(sums, "a recurrent layer's constant sums");
      constant_gradient_ = backend.allocate_floats(sums, BufferKind::kGradient,
                                                   "gradient of a recurrent layer's constant sums");
    }
    if (blobs_.states > 0) {
      state_gradient_ = backend.allocate_floats(state, BufferKind::kGradient,
                                                "gradient of a recurrent layer's state");
    }
    stream->finish();
  }

  void forward(const Ports& ports, Stream& stream, Clock clock) override {
    if (constant_ != nullptr) {
      constant_->forward(stream, static_bottom(ports).value, static_weight(ports).value, {},
                         constant_sums_.as<float>());
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      const DeviceSpan<float> state = part.state.as<float>();
      begin_state(ports, stream, i, state);
      const DeviceSpan<float> top = top_of(ports, i);
      part.op->forward(stream, bottom_of(ports, i), cont_of(ports),
                       i == 0 ? constant_sums_.as<float>() : DeviceSpan<float>(), values(ports, i),
                       state, top);
      for (std::size_t k = 0; k < blobs_.states; ++k) {
        backend_.copy(stream, blob_part(state, k), blob_part(ports.tops[1 + k].value, i));
      }
      if (part.dropout) part.dropout->forward(stream, clock, top, top);
    }
    if (parts_.back().top.size() == Bytes(0)) return;
    const DeviceSpan<float> top = ports.tops[0].value;
    const DeviceSpan<float> hidden = last_of(parts_.back().top, top.size());
    if (outputs_ == nullptr) {
      backend_.copy(stream, hidden, top);
      return;
    }
    outputs_->forward(stream, hidden, output_weight(ports).value, output_bias(ports).value, top);
    bound_->forward(stream, top, top);
  }

  void backward(const Ports& ports, Stream& stream) override {
    if (parts_.back().top.size() != Bytes(0)) backward_top(ports, stream);
    for (std::size_t i = parts_.size(); i-- > 0;) {
      Part& part = parts_[i];
      const bool is_top = part.top.size() == Bytes(0);
      const DeviceSpan<float> dy = is_top ? ports.tops[0].gradient : part.top_gradient.as<float>();
      if (part.dropout) part.dropout->backward(stream, dy, dy);
      const DeviceSpan<float> dx =
          i == 0 ? ports.bottoms[0].gradient : parts_[i - 1].top_gradient.as<float>();
      const DeviceSpan<float> state_gradient = state_gradient_.as<float>();
      take_state_gradient(ports, stream, i, state_gradient);
      part.op->backward(
          stream, bottom_of(ports, i), cont_of(ports), values(ports, i), dy, gradients(ports, i),
          i == 0 ? constant_gradient_.as<float>() : DeviceSpan<float>(), state_gradient, dx);
      for (std::size_t k = 0; k < blobs_.states; ++k) {
        const DeviceSpan<float> begun = state_bottom(ports, k).gradient;
        if (!begun.empty()) {
          backend_.copy(stream, blob_part(state_gradient, k), blob_part(begun, i));
        }
      }
    }
    if (constant_ != nullptr) backward_constant(ports, stream);
  }

  std::vector<DeviceSpan<float>> carried_state() override {
    std::vector<DeviceSpan<float>> states;
    for (const Part& part : parts_) {
      if (carries_) states.push_back(part.state.as<float>());
    }
    return states;
  }

 private:
  struct Part {
    std::unique_ptr<RecurrentOp> op;
    DeviceBuffer state;
    DeviceBuffer top, top_gradient;      // empty: the layer's own top
    std::unique_ptr<DropoutOp> dropout;  // of the top; nullptr: no dropout
  };

  /// The part of one of several states, or of one of several layers, in a blob of states.
  [[nodiscard]] DeviceSpan<float> blob_part(DeviceSpan<float> blob, std::size_t index) const {
    return blob.subspan(index * step_, step_);
  }
  [[nodiscard]] const Tensor& state_bottom(const Ports& ports, std::size_t index) const {
    return ports.bottoms[blobs_.first_state_bottom() + index];
  }
  [[nodiscard]] const Tensor& static_bottom(const Ports& ports) const {
    return ports.bottoms[blobs_.static_bottom()];
  }
  /// It follows the first layer's weight_x and bias_x.
  static const Parameter& static_weight(const Ports& ports) { return ports.parameters[2]; }

  /// The state before a layer's first step.
  void begin_state(const Ports& ports, Stream& stream, std::size_t part, DeviceSpan<float> state) {
    if (blobs_.states == 0) {
      if (!carries_) backend_.fill(stream, state, 0);
      return;
    }
    for (std::size_t k = 0; k < blobs_.states; ++k) {
      backend_.copy(stream, blob_part(state_bottom(ports, k).value, part), blob_part(state, k));
    }
  }

  /// The gradient of the state after a layer's last step.
  void take_state_gradient(const Ports& ports, Stream& stream, std::size_t part,
                           DeviceSpan<float> gradient) {
    for (std::size_t k = 0; k < blobs_.states; ++k) {
      const DeviceSpan<float> ended = ports.tops[1 + k].gradient;
      if (ended.empty()) {
        backend_.fill(stream, blob_part(gradient, k), 0);
      } else {
        backend_.copy(stream, blob_part(ended, part), blob_part(gradient, k));
      }
    }
  }

  void backward_constant(const Ports& ports, Stream& stream) {
    const Tensor& bottom = static_bottom(ports);
    const Parameter& weight = static_weight(ports);
    const DeviceSpan<float> gradient = constant_gradient_.as<float>();
    constant_->backward_parameters(stream, bottom.value, gradient, weight.gradient, {});
    if (bottom.gradient.empty()) return;
    constant_->backward_bottom(stream, gradient, weight.value, bottom.gradient);
  }

  static DeviceSpan<float> last_of(const DeviceBuffer& buffer, std::size_t count) {
    const auto all = buffer.as<float>();
    return all.subspan(all.size() - count, count);
  }

  /// From the layer's top to its hidden state.
  void backward_top(const Ports& ports, Stream& stream) {
    const Tensor& top = ports.tops[0];
    const Part& last = parts_.back();
    backend_.fill(stream, last.top_gradient.as<float>(), 0);
    if (top.gradient.empty()) return no_output_gradients(ports, stream);
    const DeviceSpan<float> gradient = last_of(last.top_gradient, top.gradient.size());
    if (outputs_ == nullptr) {
      backend_.copy(stream, top.gradient, gradient);
      return;
    }
    const DeviceSpan<float> dsums = sums_gradient_.as<float>();
    bound_->backward(stream, {}, top.value, top.gradient, dsums);
    outputs_->backward_parameters(stream, last_of(last.top, top.value.size()), dsums,
                                  output_weight(ports).gradient, output_bias(ports).gradient);
    outputs_->backward_bottom(stream, dsums, output_weight(ports).value, gradient);
  }

  /// If no loss reads the output, but one reads a state.
  void no_output_gradients(const Ports& ports, Stream& stream) {
    if (outputs_ == nullptr) return;
    for (const Parameter& unread : {output_weight(ports), output_bias(ports)}) {
      if (!unread.gradient.empty()) backend_.fill(stream, unread.gradient, 0);
    }
  }

  [[nodiscard]] DeviceSpan<const float> bottom_of(const Ports& ports, std::size_t part) const {
    return part == 0 ? ports.bottoms[0].value : parts_[part - 1].top.as<float>();
  }
  [[nodiscard]] DeviceSpan<float> top_of(const Ports& ports, std::size_t part) const {
    const DeviceSpan<float> own = parts_[part].top.as<float>();
    return own.empty() ? ports.tops[0].value : own;
  }
  static DeviceSpan<const float> cont_of(const Ports& ports) {
    return ports.bottoms.size() > 1 ? ports.bottoms[1].value : DeviceSpan<float>();
  }
  /// The indices of a layer's weight_x and weight_h among the parameters.
  [[nodiscard]] std::size_t input_weight(std::size_t part) const {
    return part * parameters_each_ + (constant_ != nullptr && part > 0 ? 1 : 0);
  }
  [[nodiscard]] std::size_t hidden_weight(std::size_t part) const {
    return part * parameters_each_ + (constant_ != nullptr ? 3 : 2);
  }
  [[nodiscard]] RecurrentParameters<const float> values(const Ports& ports,
                                                        std::size_t part) const {
    const std::span<const Parameter> all = ports.parameters;
    const std::size_t x = input_weight(part);
    const std::size_t h = hidden_weight(part);
    return {all[x].value, all[x + 1].value, all[h].value,
            parameters_each_ > 3 ? all[h + 1].value : DeviceSpan<const float>()};
  }
  [[nodiscard]] RecurrentParameters<float> gradients(const Ports& ports, std::size_t part) const {
    const std::span<const Parameter> all = ports.parameters;
    const std::size_t x = input_weight(part);
    const std::size_t h = hidden_weight(part);
    return {all[x].gradient, all[x + 1].gradient, all[h].gradient,
            parameters_each_ > 3 ? all[h + 1].gradient : DeviceSpan<float>()};
  }
  static const Parameter& output_weight(const Ports& ports) {
    return ports.parameters[ports.parameters.size() - 2];
  }
  static const Parameter& output_bias(const Ports& ports) { return ports.parameters.back(); }

  Backend& backend_;
  bool carries_;
  model::RecurrentPorts blobs_;
  std::size_t step_;  // elements of one step's hidden state
  std::size_t parameters_each_;
  std::vector<Part> parts_;
  std::unique_ptr<LinearOp> constant_;
  DeviceBuffer constant_sums_, constant_gradient_;  // [streams, G hidden]
  DeviceBuffer state_gradient_;                     // of the current layer; empty: not exposed
  std::unique_ptr<LinearOp> outputs_;
  std::unique_ptr<ActivationOp> bound_;
  DeviceBuffer sums_gradient_;
};

CellKind cell_of(const std::string& type) {
  if (type == "LSTM") return CellKind::kLstm;
  return type == "GRU" ? CellKind::kGru : CellKind::kRnn;
}

std::unique_ptr<Layer> make_recurrent(Backend& backend, const LayerSetup& setup) {
  const pb::LayerParameter& definition = setup.node.definition;
  const pb::RecurrentParameter& parameter = definition.recurrent_param();
  const Extents& bottom = setup.bottoms[0];
  RecurrentSetup recurrent;
  recurrent.first = {.cell = cell_of(definition.type()),
                     .steps = bottom[0],
                     .streams = bottom[1],
                     .inputs = bottom[2],
                     .hidden = parameter.num_output(),
                     .resets = setup.bottoms.size() < 2 || setup.begins_at_start
                                   ? Resets::kAtStart
                                   : Resets::kAnywhere};
  const RecurrentSpec& spec = recurrent.first;
  recurrent.layers = parameter.num_layers();
  recurrent.top = model::element_count(setup.tops[0]);
  recurrent.dropout = {.shape = {spec.steps, spec.streams, spec.hidden},
                       .ratio = setup.training ? parameter.dropout_ratio() : 0,
                       .seed = setup.seed,
                       .slot = setup.slot,
                       .layer = setup.index};
  recurrent.ports = model::recurrent_ports(definition);
  recurrent.carries =
      setup.bottoms.size() > 1 && parameter.carry_state() && recurrent.ports.states == 0;
  if (recurrent.ports.has_static) {
    const Extents& given = setup.bottoms[recurrent.ports.static_bottom()];
    const auto elements = static_cast<std::int64_t>(model::element_count(given));
    recurrent.constant =
        backend.make(InnerProductSpec{.bottom = given,
                                      .rows = spec.streams,
                                      .inputs = elements / spec.streams,
                                      .outputs = gate_count(spec.cell) * spec.hidden,
                                      .bias = false});
  }
  if (spec.cell == CellKind::kRnn && parameter.output_transform()) {
    recurrent.outputs = backend.make(
        InnerProductSpec{.bottom = setup.tops[0],
                         .rows = static_cast<std::int64_t>(recurrent.top) / spec.hidden,
                         .inputs = spec.hidden,
                         .outputs = spec.hidden,
                         .bias = true});
  }
  return std::make_unique<Recurrent>(backend, std::move(recurrent));
}

}  // namespace

LayerTypes recurrent_layers() {
  static constexpr LayerType kTypes[]{
      {"RNN", make_recurrent},
      {"LSTM", make_recurrent},
      {"GRU", make_recurrent},
  };
  return kTypes;
}

}  // namespace taut::layers
