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
  TAUT_CHECK(axis >= -rank && axis < rank, "the graph accepts only axes that the shape has");
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

ImageShape image_of(const Extents& shape) {
  if (shape.size() == 3) return {shape[0], shape[1], 1, shape[2]};
  TAUT_CHECK(shape.size() == 4, "the graph accepts only images here");
  return {shape[0], shape[1], shape[2], shape[3]};
}

}  // namespace layers

namespace {

/// nullptr if no file of layers has the type.
const layers::LayerType* find_type(std::string_view name) {
#define TAUT_LIST_LAYERS(file) layers::file##_layers(),
  const std::array files{TAUT_EACH_LAYER_FILE(TAUT_LIST_LAYERS)};
#undef TAUT_LIST_LAYERS
  for (const layers::LayerTypes types : files) {
    const auto found = std::ranges::find(types, name, &layers::LayerType::name);
    if (found != types.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Layer> make_layer(Backend& backend, const LayerSetup& setup) {
  const pb::LayerParameter& definition = setup.node.definition;
  const layers::LayerType* const type = find_type(definition.type());
  if (type == nullptr) {
    throw std::invalid_argument(fmt::format("layer \"{}\": type \"{}\" has no implementation",
                                            definition.name(), definition.type()));
  }
  try {
    return type->make(backend, setup);
  } catch (const std::invalid_argument& refused) {
    throw std::invalid_argument(
        fmt::format("layer \"{}\" ({}): {}", definition.name(), definition.type(), refused.what()));
  }
}

}  // namespace taut
