#include "worker/layers/layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include "worker/layers/layer_makers.hpp"

namespace taut {
namespace layers {

std::size_t axis_of(std::int64_t axis, const Extents& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  TAUT_CHECK(axis >= -rank && axis < rank, "the graph lets no axis through that is not there");
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

ImageShape image_of(const Extents& shape) {
  if (shape.size() == 3) return {shape[0], shape[1], 1, shape[2]};
  TAUT_CHECK(shape.size() == 4, "the graph lets only images to this layer");
  return {shape[0], shape[1], shape[2], shape[3]};
}

}  // namespace layers

namespace {

struct Maker {
  std::string_view type;
  std::unique_ptr<Layer> (*make)(Backend&, const LayerSetup&);
};

constexpr std::array kMakers{
    Maker{"Convolution", layers::make_convolution},
    Maker{"Pooling", layers::make_pooling},
    Maker{"InnerProduct", layers::make_inner_product},
    Maker{"ReLU", layers::make_relu},
    Maker{"Sigmoid", layers::make_sigmoid},
    Maker{"TanH", layers::make_tanh},
    Maker{"Dropout", layers::make_dropout},
    Maker{"Softmax", layers::make_softmax},
    Maker{"SoftmaxWithLoss", layers::make_softmax_loss},
    Maker{"Accuracy", layers::make_accuracy},
    Maker{"Embed", layers::make_embed},
    Maker{"PositionEmbed", layers::make_position_embed},
    Maker{"RNN", layers::make_recurrent},
    Maker{"LSTM", layers::make_recurrent},
    Maker{"GRU", layers::make_recurrent},
    Maker{"LayerNorm", layers::make_layer_norm},
    Maker{"GELU", layers::make_gelu},
    Maker{"MultiHeadAttention", layers::make_attention},
    Maker{"Deconvolution", layers::make_deconvolution},
    Maker{"LRN", layers::make_lrn},
    Maker{"BatchNorm", layers::make_batch_norm},
    Maker{"Scale", layers::make_scale},
    Maker{"Bias", layers::make_bias},
    Maker{"PReLU", layers::make_prelu},
    Maker{"ELU", layers::make_elu},
    Maker{"Power", layers::make_power},
    Maker{"Exp", layers::make_exp},
    Maker{"Log", layers::make_log},
    Maker{"AbsVal", layers::make_abs},
    Maker{"BNLL", layers::make_bnll},
    Maker{"Eltwise", layers::make_eltwise},
    Maker{"Concat", layers::make_concat},
    Maker{"Slice", layers::make_slice},
    Maker{"Reshape", layers::make_reshape},
    Maker{"Split", layers::make_split},
    Maker{"Silence", layers::make_silence},
    Maker{"Reduction", layers::make_reduction},
    Maker{"ArgMax", layers::make_arg_max},
    Maker{"EuclideanLoss", layers::make_euclidean_loss},
    Maker{"SigmoidCrossEntropyLoss", layers::make_sigmoid_cross_entropy_loss},
    Maker{"HingeLoss", layers::make_hinge_loss},
    Maker{"ContrastiveLoss", layers::make_contrastive_loss},
    Maker{"Flatten", layers::make_reshape},
};

}  // namespace

std::unique_ptr<Layer> make_layer(Backend& backend, const LayerSetup& setup) {
  const pb::LayerParameter& definition = setup.node.definition;
  const auto maker = std::ranges::find(kMakers, definition.type(), &Maker::type);
  if (maker == kMakers.end()) {
    throw std::invalid_argument(fmt::format("layer \"{}\": type \"{}\" has no implementation",
                                            definition.name(), definition.type()));
  }
  try {
    return maker->make(backend, setup);
  } catch (const std::invalid_argument& refused) {
    throw std::invalid_argument(
        fmt::format("layer \"{}\" ({}): {}", definition.name(), definition.type(), refused.what()));
  }
}

}  // namespace taut
