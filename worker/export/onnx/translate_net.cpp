#include "worker/export/onnx/translate_net.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "worker/export/onnx/layer_operators.hpp"

namespace taut::onnx {
namespace {

/// Two batch sizes; whatever differs between their nets depends on the batch.
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kOtherBatch = 3;

/// Whether each axis of each blob grows with the batch; nullopt if more than one axis of a blob
/// does, or the nets differ otherwise.
std::optional<std::vector<std::vector<bool>>> varying_axes(const model::Graph& net,
                                                           const model::Graph& other) {
  std::vector<std::vector<bool>> varies;
  for (std::size_t blob = 0; blob < net.blobs.size(); ++blob) {
    const model::Shape& shape = net.blobs[blob].shape;
    if (shape.size() != other.blobs[blob].shape.size()) return std::nullopt;
    std::vector<bool>& axes = varies.emplace_back();
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      axes.push_back(shape[axis] != other.blobs[blob].shape[axis]);
    }
    if (std::ranges::count(axes, true) > 1) return std::nullopt;
  }
  return varies;
}

/// The text of a data layer's transform, which is not part of the net.
std::string transform_of(const model::Graph& net, std::size_t blob) {
  for (const model::Node& node : net.nodes) {
    if (!node.is_fed || std::ranges::find(node.tops, blob) == node.tops.end()) continue;
    if (!node.definition.has_transform_param() || node.tops.front() != blob) continue;
    return "after the transform { " + node.definition.transform_param().ShortDebugString() + " }";
  }
  return {};
}

/// The extents of an input or output.
std::vector<Extent> extents_of(const NetTranslation& translation, std::size_t blob) {
  std::vector<Extent> extents;
  const model::Shape& shape = translation.net.blobs[blob].shape;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    extents.push_back(translation.extent(blob, axis));
  }
  return extents;
}

/// Names the fed blobs, and determines the last layer that writes each of the others.
void begin(NetTranslation& translation) {
  const model::Graph& net = translation.net;
  translation.blobs.resize(net.blobs.size());
  translation.last_writer.resize(net.blobs.size());
  for (const std::size_t blob : model::fed_blobs(net)) {
    translation.blobs[blob] = {.name = translation.new_name(net.blobs[blob].name), .is_fed = true};
  }
  std::map<std::string, std::size_t> writers;
  for (std::size_t i = 0; i < net.nodes.size(); ++i) {
    for (const std::size_t top : net.nodes[i].tops) writers[net.blobs[top].name] = i;
  }
  for (std::size_t blob = 0; blob < net.blobs.size(); ++blob) {
    translation.last_writer[blob] = writers[net.blobs[blob].name];
  }
}

Result<void> translate_layers(NetTranslation& translation) {
  for (std::size_t i = 0; i < translation.net.nodes.size(); ++i) {
    const model::Node& node = translation.net.nodes[i];
    if (node.is_fed) continue;
    // A layer that reads a loss or an accuracy is left out with it.
    const bool reads_all = std::ranges::all_of(
        node.bottoms, [&](std::size_t blob) { return !translation.blobs[blob].name.empty(); });
    if (!reads_all) continue;
    const std::string& type = node.definition.type();
    const LayerOperators* operators = find_operators(type);
    LayerTranslation layer(translation, i);
    Result<void> done = invalid("ONNX has no operators for it");
    if (operators != nullptr) done = operators->translate(layer);
    if (!done) {
      return invalid(
          fmt::format("layer \"{}\" of type \"{}\": {}; leave it out of the TEST phase, or export "
                      "the parameters with --output FILE.safetensors",
                      node.definition.name(), type, done.error().message));
    }
  }
  return ok();
}

/// Adds the inputs and outputs when all layers are translated.
Result<void> finish(NetTranslation& translation) {
  GraphProto& graph = translation.graph;
  graph.set_name(translation.net.name.empty() ? "net" : translation.net.name);
  for (const std::size_t blob : model::fed_blobs(translation.net)) {
    const BlobValue& value = translation.blobs[blob];
    if (!value.input_is_read) continue;
    ValueInfoProto& input = *graph.add_input();
    input = float_value(translation.net.blobs[blob].name, extents_of(translation, blob));
    const std::string transform = transform_of(translation.net, blob);
    if (!transform.empty()) input.set_doc_string(transform);
  }
  for (std::size_t blob = 0; blob < translation.blobs.size(); ++blob) {
    const BlobValue& value = translation.blobs[blob];
    if (value.is_fed || value.is_read || value.name.empty()) continue;
    *graph.add_output() = float_value(value.name, extents_of(translation, blob));
  }
  if (graph.output().empty()) {
    return invalid("the net's TEST phase has no layer that computes an output");
  }
  for (const ValueInfoProto& state : translation.state_inputs) *graph.add_input() = state;
  for (const ValueInfoProto& state : translation.state_outputs) *graph.add_output() = state;
  return ok();
}

Result<NetTranslation> translate(const model::Graph& net, std::int64_t batch,
                                 std::vector<std::vector<bool>> varies) {
  NetTranslation translation{.net = net, .batch = batch, .varies = std::move(varies)};
  begin(translation);
  TAUT_TRY(translate_layers(translation));
  TAUT_TRY(finish(translation));
  return translation;
}

bool same(const NetTranslation& one, const NetTranslation& other) {
  const auto is_same = [](const ParameterTensor& a, const ParameterTensor& b) {
    return a.name == b.name && a.dims == b.dims;
  };
  return one.graph.SerializeAsString() == other.graph.SerializeAsString() &&
         std::ranges::equal(one.parameters, other.parameters, is_same);
}

/// A translation that is the same for two batch sizes is valid for any; nullopt if there is none.
std::optional<OnnxNet> for_any_batch(const BuildNet& build) {
  auto net = build(kBatch);
  const auto other = build(kOtherBatch);
  if (!net || !other || net.value().blobs.size() != other.value().blobs.size()) {
    return std::nullopt;
  }
  const auto varies = varying_axes(net.value(), other.value());
  if (!varies) return std::nullopt;
  const bool any = std::ranges::any_of(
      *varies, [](const auto& axes) { return std::ranges::find(axes, true) != axes.end(); });
  auto one = translate(net.value(), kBatch, *varies);
  const auto two = translate(other.value(), kOtherBatch, *varies);
  if (!any || !one || !two || !same(one.value(), two.value())) return std::nullopt;
  return OnnxNet{.net = net.value(),
                 .graph = std::move(one.value().graph),
                 .parameters = std::move(one.value().parameters),
                 .any_batch = true};
}

}  // namespace

const LayerOperators* find_operators(std::string_view type) {
  const auto of_family = [type](std::span<const LayerOperators> family) -> const LayerOperators* {
    const auto found = std::ranges::find(family, type, &LayerOperators::type);
    return found == family.end() ? nullptr : &*found;
  };
#define TAUT_FIND_OPERATORS(family) \
  if (const LayerOperators* found = of_family(family##_operators())) return found;
  TAUT_EACH_OPERATOR_FAMILY(TAUT_FIND_OPERATORS)
#undef TAUT_FIND_OPERATORS
  return nullptr;
}

Result<OnnxNet> translate_net(const BuildNet& build, std::int64_t batch) {
  if (batch == 0) {
    if (auto any = for_any_batch(build)) return std::move(*any);
  }
  TAUT_TRY(model::Graph net, build(batch));
  TAUT_TRY(NetTranslation translation, translate(net, batch, {}));
  return OnnxNet{.net = net,
                 .graph = std::move(translation.graph),
                 .parameters = std::move(translation.parameters)};
}

}  // namespace taut::onnx
