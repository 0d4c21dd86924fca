#include <stdexcept>

#include "worker/layers/layer_makers.hpp"
#include "worker/model/window.hpp"

namespace taut::layers {
namespace {

class Pooling final : public Layer {
 public:
  explicit Pooling(std::unique_ptr<PoolingOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, ports.tops[0].gradient, ports.bottoms[0].gradient);
  }

 private:
  std::unique_ptr<PoolingOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_pooling(Backend& backend, const LayerSetup& setup) {
  const pb::PoolingParameter& parameter = setup.node.definition.pooling_param();
  const ImageShape bottom = image_of(setup.bottoms[0]);
  const Result<model::Window> settled = model::pooling_window(parameter, bottom.h, bottom.w);
  if (!settled) throw std::invalid_argument(settled.error().message);
  const auto& [h, w] = settled.value();
  return std::make_unique<Pooling>(backend.pooling(
      {.bottom = bottom,
       .top = image_of(setup.tops[0]),
       .window = {h.kernel, w.kernel, h.stride, w.stride, h.pad, w.pad},
       .method = parameter.pool() == pb::PoolingParameter::MAX ? PoolingMethod::kMax
                                                               : PoolingMethod::kAverage}));
}

}  // namespace taut::layers
