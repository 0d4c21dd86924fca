#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Attention between two inner products: one computes queries, keys and values, the other mixes the
/// heads' results. Parameters: weight_qkv, bias_qkv, weight_o, bias_o; the biases only if there are
/// any.
/// Source    Vaswani et al., "Attention Is All You Need", NIPS 2017, section 3.2.2
class MultiHeadAttention final : public Layer {
 public:
  MultiHeadAttention(Backend& backend, const SequenceShape& shape, const AttentionSpec& spec,
                     bool bias)
      : bias_(bias),
        project_(backend.make(projection(shape, 3, bias))),
        attend_(backend.make(spec)),
        mix_(backend.make(projection(shape, 1, bias))) {
    const auto count = static_cast<std::size_t>(shape.steps * shape.streams * shape.channels);
    qkv_ = backend.allocate_floats(3 * count, "queries, keys and values");
    found_ = backend.allocate_floats(count, "an attention's result");
    qkv_gradient_ = backend.allocate_floats(3 * count, BufferKind::kGradient,
                                            "gradient of queries, keys and values");
    found_gradient_ =
        backend.allocate_floats(count, BufferKind::kGradient, "gradient of an attention's result");
  }

  void forward(const Ports& ports, Stream& stream, Clock clock) override {
    const auto mask = ports.bottoms.size() > 1 ? ports.bottoms[1].value : DeviceSpan<float>();
    project_->forward(stream, ports.bottoms[0].value, weight(ports, 0).value, bias(ports, 0).value,
                      floats(qkv_));
    attend_->forward(stream, clock, floats(qkv_), mask, floats(found_));
    mix_->forward(stream, floats(found_), weight(ports, 1).value, bias(ports, 1).value,
                  ports.tops[0].value);
  }

  void backward(const Ports& ports, Stream& stream) override {
    const DeviceSpan<float> dy = ports.tops[0].gradient;
    mix_->backward_parameters(stream, floats(found_), dy, weight(ports, 1).gradient,
                              bias(ports, 1).gradient);
    mix_->backward_bottom(stream, dy, weight(ports, 1).value, floats(found_gradient_));
    attend_->backward(stream, floats(qkv_), floats(found_gradient_), floats(qkv_gradient_));
    project_->backward_parameters(stream, ports.bottoms[0].value, floats(qkv_gradient_),
                                  weight(ports, 0).gradient, bias(ports, 0).gradient);
    if (ports.bottoms[0].gradient.empty()) return;
    project_->backward_bottom(stream, floats(qkv_gradient_), weight(ports, 0).value,
                              ports.bottoms[0].gradient);
  }

 private:
  static InnerProductSpec projection(const SequenceShape& shape, std::int64_t parts, bool bias) {
    return {.bottom = {shape.steps, shape.streams, shape.channels},
            .rows = shape.steps * shape.streams,
            .inputs = shape.channels,
            .outputs = parts * shape.channels,
            .bias = bias};
  }
  static DeviceSpan<float> floats(const DeviceBuffer& buffer) { return buffer.as<float>(); }
  [[nodiscard]] Parameter weight(const Ports& ports, std::size_t product) const {
    return ports.parameters[bias_ ? 2 * product : product];
  }
  [[nodiscard]] Parameter bias(const Ports& ports, std::size_t product) const {
    return bias_ ? ports.parameters[2 * product + 1] : Parameter{};
  }

  bool bias_;
  std::unique_ptr<LinearOp> project_;
  std::unique_ptr<AttentionOp> attend_;
  std::unique_ptr<LinearOp> mix_;
  DeviceBuffer qkv_, found_, qkv_gradient_, found_gradient_;
};

std::unique_ptr<Layer> make_attention(Backend& backend, const LayerSetup& setup) {
  const pb::AttentionParameter& parameter = setup.node.definition.attention_param();
  const Extents& bottom = setup.bottoms[0];
  const SequenceShape shape{bottom[0], bottom[1], bottom[2]};
  AttentionSpec spec{
      .shape = shape, .heads = parameter.num_heads(), .causal = parameter.causal(), .dropout = {}};
  spec.dropout.ratio = setup.training ? parameter.dropout_ratio() : 0;
  spec.dropout.seed = setup.seed;
  spec.dropout.slot = setup.slot;
  spec.dropout.layer = setup.index;
  return std::make_unique<MultiHeadAttention>(backend, shape, spec, parameter.bias_term());
}

}  // namespace

LayerTypes attention_layers() {
  static constexpr LayerType kTypes[]{
      {"MultiHeadAttention", make_attention},
  };
  return kTypes;
}

}  // namespace taut::layers
