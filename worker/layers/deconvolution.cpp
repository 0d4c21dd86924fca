#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

/// A convolution run backwards: its bottom is this layer's top. The weights are
/// [bottom.c, top.c / group, kernel_h, kernel_w].
/// Source    Caffe, src/caffe/layers/deconv_layer.cpp
class Deconvolution final : public Layer {
 public:
  Deconvolution(std::unique_ptr<LinearOp> convolution, std::unique_ptr<AffineOp> bias)
      : convolution_(std::move(convolution)), bias_(std::move(bias)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    const DeviceSpan<float> top = ports.tops[0].value;
    convolution_->backward_bottom(stream, ports.bottoms[0].value, ports.parameters[0].value, top);
    if (bias_) bias_->forward(stream, top, {}, ports.parameters[1].value, top);
  }

  void backward(const Ports& ports, Stream& stream) override {
    const Tensor& bottom = ports.bottoms[0];
    const Tensor& top = ports.tops[0];
    const Parameter& weights = ports.parameters[0];
    convolution_->backward_parameters(stream, top.gradient, bottom.value, weights.gradient, {});
    if (bias_) {
      bias_->backward(stream, top.value, {}, top.gradient, {}, {}, ports.parameters[1].gradient);
    }
    if (!bottom.gradient.empty()) {
      convolution_->forward(stream, top.gradient, weights.value, {}, bottom.gradient);
    }
  }

 private:
  std::unique_ptr<LinearOp> convolution_;
  std::unique_ptr<AffineOp> bias_;
};

std::unique_ptr<Layer> make_deconvolution(Backend& backend, const LayerSetup& setup) {
  const pb::ConvolutionParameter& parameter = setup.node.definition.convolution_param();
  const Extents& top = setup.tops[0];
  auto convolution = backend.make(ConvolutionSpec{.bottom = image_of(top),
                                                  .top = image_of(setup.bottoms[0]),
                                                  .rows = top.size() == 3,
                                                  .window = convolution_window_of(setup),
                                                  .group = parameter.group(),
                                                  .bias = false,
                                                  .bottom_gradient = true,
                                                  .runs_backwards = true});
  std::unique_ptr<AffineOp> bias;
  if (parameter.bias_term()) {
    bias = backend.make(
        AffineSpec{.shape = top, .axis = 1, .factors = {top[1]}, .scale = false, .bias = true});
  }
  return std::make_unique<Deconvolution>(std::move(convolution), std::move(bias));
}

}  // namespace

LayerTypes deconvolution_layers() {
  static constexpr LayerType kTypes[]{
      {"Deconvolution", make_deconvolution},
  };
  return kTypes;
}

}  // namespace taut::layers
