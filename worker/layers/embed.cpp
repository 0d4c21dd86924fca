#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Parameters: the weights, then optionally the bias.
class Embed final : public Layer {
 public:
  explicit Embed(std::unique_ptr<EmbedOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.parameters[0].value, bias_of(ports).value,
                 ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    op_->backward(stream, ports.bottoms[0].value, ports.tops[0].gradient,
                  ports.parameters[0].gradient, bias_of(ports).gradient);
  }

 private:
  static Parameter bias_of(const Ports& ports) {
    return ports.parameters.size() > 1 ? ports.parameters[1] : Parameter{};
  }

  std::unique_ptr<EmbedOp> op_;
};

class PositionEmbed final : public Layer {
 public:
  explicit PositionEmbed(std::unique_ptr<PositionEmbedOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.parameters[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    op_->backward(stream, ports.tops[0].gradient, ports.parameters[0].gradient,
                  ports.bottoms[0].gradient);
  }

 private:
  std::unique_ptr<PositionEmbedOp> op_;
};

std::unique_ptr<Layer> make_embed(Backend& backend, const LayerSetup& setup) {
  const pb::EmbedParameter& parameter = setup.node.definition.embed_param();
  const auto count = static_cast<std::int64_t>(model::element_count(setup.bottoms[0]));
  return std::make_unique<Embed>(
      backend.make(EmbedSpec{.count = count,
                             .inputs = parameter.by_rows() ? count : parameter.input_dim(),
                             .outputs = parameter.num_output()}));
}

std::unique_ptr<Layer> make_position_embed(Backend& backend, const LayerSetup& setup) {
  const Extents& shape = setup.bottoms[0];
  return std::make_unique<PositionEmbed>(
      backend.make(PositionEmbedSpec{.shape = {shape[0], shape[1], shape[2]}}));
}

}  // namespace

LayerTypes embed_layers() {
  static constexpr LayerType kTypes[]{
      {"Embed", make_embed},
      {"PositionEmbed", make_position_embed},
  };
  return kTypes;
}

}  // namespace taut::layers
