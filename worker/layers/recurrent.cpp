#include <utility>
#include <vector>

#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Recurrent layers on top of each other, with dropout between them, and behind an RNN's hidden
/// state Caffe's tanh(W_ho h + b_o). The top is all steps, or the last one. Each layer keeps its state: a batch goes on from it where there
/// are markers that may say so, and begins from zeros else.
class Recurrent final : public Layer {
 public:
  /// top      elements of the layer's top
  /// outputs  null: the hidden state is the top
  Recurrent(Backend& backend, const RecurrentSpec& first, std::size_t layers, std::size_t top,
            const DropoutSpec& dropout, bool carries, std::unique_ptr<LinearOp> outputs)
      : backend_(backend),
        carries_(carries),
        parameters_each_(first.cell == CellKind::kGru ? 4 : 3),
        outputs_(std::move(outputs)) {
    const auto state = static_cast<std::size_t>(first.streams * first.hidden) *
                       (first.cell == CellKind::kLstm ? 2 : 1);
    const auto all = static_cast<std::size_t>(first.steps * first.streams * first.hidden);
    const std::unique_ptr<Stream> stream = backend.make_stream();
    for (std::size_t i = 0; i < layers; ++i) {
      RecurrentSpec spec = first;
      if (i > 0) spec.inputs = first.hidden;
      Part& part = parts_.emplace_back();
      part.op = backend.recurrent(spec);
      part.state = backend.allocate_floats(state, "a recurrent layer's state");
      backend.fill(*stream, part.state.as<float>(), 0);
      const bool is_top = i + 1 == layers && outputs_ == nullptr && top == all;
      if (is_top) continue;
      part.top = backend.allocate_floats(all, "a recurrent layer's outputs");
      part.top_gradient = backend.allocate_floats(all, "gradient of a recurrent layer's outputs");
      if (i + 1 == layers || dropout.ratio == 0) continue;
      DropoutSpec own = dropout;
      own.layer |= static_cast<std::uint32_t>(i + 1) << 24U;  // a net has fewer layers than that
      part.dropout = backend.dropout(own);
    }
    if (outputs_ != nullptr) {
      bound_ = backend.activation({.kind = ActivationKind::kTanH});
      sums_gradient_ = backend.allocate_floats(top, "gradient of a recurrent layer's sums");
    }
    stream->finish();
  }

  void forward(const Ports& ports, Stream& stream, Clock clock) override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      if (!carries_) backend_.fill(stream, part.state.as<float>(), 0);
      const DeviceSpan<float> top = top_of(ports, i);
      part.op->forward(stream, bottom_of(ports, i), cont_of(ports), values(ports, i),
                       part.state.as<float>(), top);
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
      part.op->backward(stream, bottom_of(ports, i), cont_of(ports), values(ports, i), dy,
                        gradients(ports, i), dx);
    }
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
    DeviceBuffer top, top_gradient;      // none: the layer's own top
    std::unique_ptr<DropoutOp> dropout;  // of the top; none: nothing is dropped
  };

  static DeviceSpan<float> last_of(const DeviceBuffer& buffer, std::size_t count) {
    const auto all = buffer.as<float>();
    return all.subspan(all.size() - count, count);
  }

  /// From the layer's top to the hidden state that it was made of.
  void backward_top(const Ports& ports, Stream& stream) {
    const Tensor& top = ports.tops[0];
    const Part& last = parts_.back();
    const DeviceSpan<float> gradient = last_of(last.top_gradient, top.gradient.size());
    backend_.fill(stream, last.top_gradient.as<float>(), 0);
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
  [[nodiscard]] RecurrentParameters<const float> values(const Ports& ports,
                                                        std::size_t part) const {
    const auto own = ports.parameters.subspan(part * parameters_each_, parameters_each_);
    return {own[0].value, own[1].value, own[2].value,
            own.size() > 3 ? own[3].value : DeviceSpan<const float>()};
  }
  [[nodiscard]] RecurrentParameters<float> gradients(const Ports& ports, std::size_t part) const {
    const auto own = ports.parameters.subspan(part * parameters_each_, parameters_each_);
    return {own[0].gradient, own[1].gradient, own[2].gradient,
            own.size() > 3 ? own[3].gradient : DeviceSpan<float>()};
  }
  static const Parameter& output_weight(const Ports& ports) {
    return ports.parameters[ports.parameters.size() - 2];
  }
  static const Parameter& output_bias(const Ports& ports) { return ports.parameters.back(); }

  Backend& backend_;
  bool carries_;
  std::size_t parameters_each_;
  std::vector<Part> parts_;
  std::unique_ptr<LinearOp> outputs_;
  std::unique_ptr<ActivationOp> bound_;
  DeviceBuffer sums_gradient_;
};

CellKind cell_of(const std::string& type) {
  if (type == "LSTM") return CellKind::kLstm;
  return type == "GRU" ? CellKind::kGru : CellKind::kRnn;
}

}  // namespace

std::unique_ptr<Layer> make_recurrent(Backend& backend, const LayerSetup& setup) {
  const pb::LayerParameter& definition = setup.node.definition;
  const pb::RecurrentParameter& parameter = definition.recurrent_param();
  const Extents& bottom = setup.bottoms[0];
  const RecurrentSpec spec{.cell = cell_of(definition.type()),
                           .steps = bottom[0],
                           .streams = bottom[1],
                           .inputs = bottom[2],
                           .hidden = parameter.num_output(),
                           .resets = setup.bottoms.size() < 2 || setup.begins_at_start
                                         ? Resets::kAtStart
                                         : Resets::kAnywhere};
  const DropoutSpec dropout{.shape = {spec.steps, spec.streams, spec.hidden},
                            .ratio = setup.training ? parameter.dropout_ratio() : 0,
                            .seed = setup.seed,
                            .slot = setup.slot,
                            .layer = setup.index};
  const std::size_t top = model::element_count(setup.tops[0]);
  std::unique_ptr<LinearOp> outputs;
  if (spec.cell == CellKind::kRnn && parameter.output_transform()) {
    outputs = backend.inner_product({.bottom = setup.tops[0],
                                     .rows = static_cast<std::int64_t>(top) / spec.hidden,
                                     .inputs = spec.hidden,
                                     .outputs = spec.hidden,
                                     .bias = true});
  }
  return std::make_unique<Recurrent>(backend, spec, parameter.num_layers(), top, dropout,
                                     setup.bottoms.size() > 1 && parameter.carry_state(),
                                     std::move(outputs));
}

}  // namespace taut::layers
