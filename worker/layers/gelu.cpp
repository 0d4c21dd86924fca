#include "worker/layers/layer_makers.hpp"
#include "worker/layers/plain_layer.hpp"

namespace taut::layers {

std::unique_ptr<Layer> make_gelu(Backend& backend, const LayerSetup&) {
  return std::make_unique<PlainLayer<GeluOp>>(backend.gelu());
}

}  // namespace taut::layers
