#include "worker/layers/layer_makers.hpp"

namespace taut::layers {
namespace {

class Gelu final : public Layer {
 public:
  explicit Gelu(std::unique_ptr<GeluOp> op) : op_(std::move(op)) {}

  void forward(const Ports& ports, Stream& stream, Clock) override {
    op_->forward(stream, ports.bottoms[0].value, ports.tops[0].value);
  }
  void backward(const Ports& ports, Stream& stream) override {
    if (ports.bottoms[0].gradient.empty()) return;
    op_->backward(stream, ports.bottoms[0].value, ports.tops[0].gradient,
                  ports.bottoms[0].gradient);
  }

 private:
  std::unique_ptr<GeluOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_gelu(Backend& backend, const LayerSetup&) {
  return std::make_unique<Gelu>(backend.gelu());
}

}  // namespace taut::layers
