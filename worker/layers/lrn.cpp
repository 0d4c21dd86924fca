#include "worker/layers/layer_makers.hpp"
#include "worker/layers/plain_layer.hpp"

namespace taut::layers {
namespace {

std::unique_ptr<Layer> make_lrn(Backend& backend, const LayerSetup& setup) {
  const pb::LRNParameter& parameter = setup.node.definition.lrn_param();
  const bool across = parameter.norm_region() == pb::LRNParameter::ACROSS_CHANNELS;
  return std::make_unique<PlainLayer<LrnOp>>(backend.make(
      LrnSpec{.shape = image_of(setup.bottoms[0]),
              .region = across ? LrnRegion::kAcrossChannels : LrnRegion::kWithinChannel,
              .size = parameter.local_size(),
              .alpha = parameter.alpha(),
              .beta = parameter.beta(),
              .k = parameter.k()}));
}

}  // namespace

LayerTypes lrn_layers() {
  static constexpr LayerType kTypes[]{
      {"LRN", make_lrn},
  };
  return kTypes;
}

}  // namespace taut::layers
