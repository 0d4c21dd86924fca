#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// Parameters: scale and shift, or none.
class LayerNorm final : public Layer {
 public:
  explicit LayerNorm(std::unique_ptr<LayerNormOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, parameter(ports, 0).value,
                 parameter(ports, 1).value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    op_->backward(stream, ports.bottoms[0].value, parameter(ports, 0).value, ports.tops[0].gradient,
                  parameter(ports, 0).gradient, parameter(ports, 1).gradient,
                  ports.bottoms[0].gradient);
  }

 private:
  static Parameter parameter(const Ports& ports, std::size_t index) {
    return ports.parameters.empty() ? Parameter{} : ports.parameters[index];
  }

  std::unique_ptr<LayerNormOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_layer_norm(Backend& backend, const LayerSetup& setup) {
  const pb::LayerNormParameter& parameter = setup.node.definition.layer_norm_param();
  const Extents& shape = setup.bottoms[0];
  const std::size_t axis = axis_of(parameter.axis(), shape);
  LayerNormSpec spec{.rows = 1, .columns = 1, .epsilon = parameter.eps()};
  for (std::size_t i = 0; i < shape.size(); ++i) (i < axis ? spec.rows : spec.columns) *= shape[i];
  return std::make_unique<LayerNorm>(backend.layer_norm(spec));
}

}  // namespace taut::layers
