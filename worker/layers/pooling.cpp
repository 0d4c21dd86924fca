#include <stdexcept>

#include "worker/layers/layer_makers.hpp"
#include "worker/model/rules/window.hpp"

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

class StochasticPooling final : public Layer {
 public:
  explicit StochasticPooling(std::unique_ptr<StochasticPoolingOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock clock) override {
    op_->forward(stream, clock, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, ports.tops[0].gradient, ports.bottoms[0].gradient);
  }

 private:
  std::unique_ptr<StochasticPoolingOp> op_;
};

std::unique_ptr<Layer> make_pooling(Backend& backend, const LayerSetup& setup) {
  const pb::PoolingParameter& parameter = setup.node.definition.pooling_param();
  const ImageShape bottom = image_of(setup.bottoms[0]);
  const Result<model::Window> settled = model::pooling_window(parameter, bottom.h, bottom.w);
  if (!settled) throw std::invalid_argument(settled.error().message);
  const auto& [h, w] = settled.value();
  if (parameter.pool() == pb::PoolingParameter::STOCHASTIC) {
    return std::make_unique<StochasticPooling>(
        backend.make(StochasticPoolingSpec{.bottom = bottom,
                                           .top = image_of(setup.tops[0]),
                                           .window = {h.kernel, w.kernel, h.stride, w.stride},
                                           .training = setup.training,
                                           .seed = setup.seed,
                                           .slot = setup.slot,
                                           .layer = setup.index}));
  }
  return std::make_unique<Pooling>(backend.make(PoolingSpec{
      .bottom = bottom,
      .top = image_of(setup.tops[0]),
      .window = {h.kernel, w.kernel, h.stride, w.stride, h.pad, w.pad},
      .method = parameter.pool() == pb::PoolingParameter::MAX ? PoolingMethod::kMax
                                                              : PoolingMethod::kAverage}));
}

}  // namespace

LayerTypes pooling_layers() {
  static constexpr LayerType kTypes[]{
      {"Pooling", make_pooling},
  };
  return kTypes;
}

}  // namespace taut::layers
