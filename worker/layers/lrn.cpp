#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

class Lrn final : public Layer {
 public:
  explicit Lrn(std::unique_ptr<LrnOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    const Tensor& bottom = ports.bottoms[0];
    if (bottom.gradient.empty()) return;
    op_->backward(stream, bottom.value, ports.tops[0].gradient, bottom.gradient);
  }

 private:
  std::unique_ptr<LrnOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_lrn(Backend& backend, const LayerSetup& setup) {
  const pb::LRNParameter& parameter = setup.node.definition.lrn_param();
  const bool across = parameter.norm_region() == pb::LRNParameter::ACROSS_CHANNELS;
  return std::make_unique<Lrn>(
      backend.lrn({.shape = image_of(setup.bottoms[0]),
                   .region = across ? LrnRegion::kAcrossChannels : LrnRegion::kWithinChannel,
                   .size = parameter.local_size(),
                   .alpha = parameter.alpha(),
                   .beta = parameter.beta(),
                   .k = parameter.k()}));
}

}  // namespace taut::layers
