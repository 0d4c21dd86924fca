#include <stdexcept>

#include "worker/layers/fused.hpp"
#include "worker/layers/layer_makers.hpp"
#include "worker/model/rules/window.hpp"

namespace taut::layers {
namespace {

/// A convolution or an inner product. Parameters: weights, then optionally the bias.
class Linear final : public Layer {
 public:
  explicit Linear(std::unique_ptr<LinearOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.parameters[0].value, bias_of(ports).value,
                 ports.tops[0].value);
  }

  void backward(const Ports& ports, Stream& stream) override {
    const Tensor& bottom = ports.bottoms[0];
    const Tensor& top = ports.tops[0];
    const Parameter& weights = ports.parameters[0];
    op_->backward_parameters(stream, bottom.value, top.gradient, weights.gradient,
                             bias_of(ports).gradient);
    if (!bottom.gradient.empty()) {
      op_->backward_bottom(stream, top.gradient, weights.value, bottom.gradient);
    }
  }

 private:
  static Parameter bias_of(const Ports& ports) {
    return ports.parameters.size() > 1 ? ports.parameters[1] : Parameter{};
  }

  std::unique_ptr<LinearOp> op_;
};

ConvolutionSpec convolution_of(const LayerSetup& setup) {
  const pb::ConvolutionParameter& parameter = setup.node.definition.convolution_param();
  return {.bottom = image_of(setup.bottoms[0]),
          .top = image_of(setup.tops[0]),
          .rows = setup.bottoms[0].size() == 3,
          .window = convolution_window_of(setup),
          .group = parameter.group(),
          .bias = parameter.bias_term(),
          .bottom_gradient = setup.bottom_gradients[0]};
}

std::unique_ptr<Layer> make_convolution(Backend& backend, const LayerSetup& setup) {
  return std::make_unique<Linear>(backend.make(convolution_of(setup)));
}

std::unique_ptr<Layer> make_inner_product(Backend& backend, const LayerSetup& setup) {
  const pb::InnerProductParameter& parameter = setup.node.definition.inner_product_param();
  const Extents& bottom = setup.bottoms[0];
  const std::size_t axis = axis_of(parameter.axis(), bottom);
  if (axis == 3) {
    // Its top would be treated as images, whose order in memory is up to the backend.
    throw std::invalid_argument("axis 3 has no implementation; use an axis up to 2");
  }
  InnerProductSpec spec{.bottom = bottom,
                        .rows = 1,
                        .inputs = 1,
                        .outputs = parameter.num_output(),
                        .bias = parameter.bias_term(),
                        .transpose = parameter.transpose()};
  for (std::size_t i = 0; i < bottom.size(); ++i) (i < axis ? spec.rows : spec.inputs) *= bottom[i];
  return std::make_unique<Linear>(backend.make(spec));
}

}  // namespace

Window convolution_window_of(const LayerSetup& setup) {
  const Result<model::Window> settled = model::convolution_window(
      setup.node.definition.convolution_param(), setup.bottoms[0].size() - 2);
  if (!settled) throw std::invalid_argument(settled.error().message);
  const auto& [h, w] = settled.value();
  return {h.kernel, w.kernel, h.stride, w.stride, h.pad, w.pad, h.dilation, w.dilation};
}

std::unique_ptr<Layer> make_rectified_convolution(FusingBackend& backend, const LayerSetup& setup) {
  return std::make_unique<Linear>(
      backend.make_fused(RectifiedConvolutionSpec{convolution_of(setup)}));
}

LayerTypes linear_layers() {
  static constexpr LayerType kTypes[]{
      {"Convolution", make_convolution},
      {"InnerProduct", make_inner_product},
  };
  return kTypes;
}

}  // namespace taut::layers
