#include <numeric>

#include "worker/export/onnx/layer_operators.hpp"
#include "worker/model/extents.hpp"

namespace taut::onnx {
namespace {

std::int64_t signed_of(std::size_t value) {
  return static_cast<std::int64_t>(value);
}

/// The axis of Concat and Slice, in either spelling.
template <class P>
Result<std::size_t> parts_axis(const P& parameter, bool has_dim, std::int64_t dim,
                               const model::Shape& shape) {
  return model::axis_index(has_dim ? dim : std::int64_t{parameter.axis()}, shape, "axis");
}

Result<void> concat(LayerTranslation& layer) {
  const pb::ConcatParameter& parameter = layer.definition().concat_param();
  TAUT_TRY(const std::size_t axis, parts_axis(parameter, parameter.has_concat_dim(),
                                              parameter.concat_dim(), layer.bottom_shape(0)));
  Names inputs;
  for (std::size_t i = 0; i < layer.bottom_count(); ++i) inputs.push_back(layer.bottom(i));
  layer.write(0, "Concat", inputs, {whole("axis", signed_of(axis))});
  return ok();
}

Result<void> slice(LayerTranslation& layer) {
  const pb::SliceParameter& parameter = layer.definition().slice_param();
  TAUT_TRY(const std::size_t axis, parts_axis(parameter, parameter.has_slice_dim(),
                                              parameter.slice_dim(), layer.bottom_shape(0)));
  Dims lengths;
  for (std::size_t i = 0; i < layer.top_count(); ++i) {
    lengths.push_back(layer.top_shape(i)[axis]);
  }
  const Names parts =
      layer.add_several("Split", layer.top_count(), {layer.bottom(0), layer.wholes(lengths)},
                        {whole("axis", signed_of(axis))});
  for (std::size_t i = 0; i < parts.size(); ++i) layer.write(i, "Identity", {parts[i]});
  return ok();
}

/// Flatten and Reshape.
Result<void> reshape(LayerTranslation& layer) {
  layer.write(0, "Reshape", {layer.bottom(0), layer.wholes(layer.top_dims(0))});
  return ok();
}

Result<void> split(LayerTranslation& layer) {
  const std::string bottom = layer.bottom(0);
  for (std::size_t i = 0; i < layer.top_count(); ++i) layer.write(i, "Identity", {bottom});
  return ok();
}

/// The second bottom supplies only a shape, which is known.
Result<void> crop(LayerTranslation& layer) {
  const pb::CropParameter& parameter = layer.definition().crop_param();
  const model::Shape& bottom = layer.bottom_shape(0);
  const model::Shape& top = layer.top_shape(0);
  TAUT_TRY(const std::size_t first, model::axis_index(parameter.axis(), bottom, "crop_param.axis"));
  Dims axes;
  Dims starts;
  Dims ends;
  for (std::size_t axis = first; axis < bottom.size(); ++axis) {
    if (bottom[axis] == top[axis]) continue;
    axes.push_back(signed_of(axis));
    starts.push_back(model::crop_offset(parameter, axis - first));
    ends.push_back(starts.back() + top[axis]);
  }
  layer.drop_bottom(1);
  if (axes.empty()) {
    layer.write(0, "Identity", {layer.bottom(0)});
  } else {
    layer.write(0, "Slice",
                {layer.bottom(0), layer.wholes(starts), layer.wholes(ends), layer.wholes(axes)});
  }
  return ok();
}

Result<void> tile(LayerTranslation& layer) {
  const pb::TileParameter& parameter = layer.definition().tile_param();
  const model::Shape& bottom = layer.bottom_shape(0);
  TAUT_TRY(const std::size_t axis, model::axis_index(parameter.axis(), bottom, "tile_param.axis"));
  Dims repeats(bottom.size(), 1);
  repeats[axis] = parameter.tiles();
  layer.write(0, "Tile", {layer.bottom(0), layer.wholes(repeats)});
  return ok();
}

Result<void> reduction(LayerTranslation& layer) {
  const pb::ReductionParameter& parameter = layer.definition().reduction_param();
  const model::Shape& bottom = layer.bottom_shape(0);
  TAUT_TRY(const std::size_t axis,
           model::axis_index(parameter.axis(), bottom, "reduction_param.axis"));
  Dims axes(bottom.size() - axis);
  std::iota(axes.begin(), axes.end(), signed_of(axis));
  std::string value;
  const Attribute drops = whole("keepdims", 0);
  switch (parameter.operation()) {
    case pb::ReductionParameter::SUM:  // the only one whose axes are an input in this operator set
      value = layer.add("ReduceSum", {layer.bottom(0), layer.wholes(axes)}, {drops});
      break;
    case pb::ReductionParameter::ASUM:
      value = layer.add("ReduceL1", {layer.bottom(0)}, {{"axes", axes}, drops});
      break;
    case pb::ReductionParameter::SUMSQ:
      value = layer.add("ReduceSumSquare", {layer.bottom(0)}, {{"axes", axes}, drops});
      break;
    case pb::ReductionParameter::MEAN:
      value = layer.add("ReduceMean", {layer.bottom(0)}, {{"axes", axes}, drops});
      break;
  }
  if (parameter.coeff() == 1) {
    layer.write(0, "Identity", {value});
  } else {
    layer.write(0, "Mul", {value, layer.number(parameter.coeff())});
  }
  return ok();
}

/// TopK's values, and its indices as the floats that all blobs are.
Names top_k(LayerTranslation& layer, const std::string& value, std::int64_t axis) {
  const std::int64_t k = layer.definition().argmax_param().top_k();
  Names found = layer.add_several("TopK", 2, {value, layer.wholes({k})}, {whole("axis", axis)});
  found[1] = layer.add("Cast", {found[1]}, {whole("to", TensorProto::FLOAT)});
  return found;
}

Result<void> arg_max(LayerTranslation& layer) {
  const pb::ArgMaxParameter& parameter = layer.definition().argmax_param();
  if (parameter.has_axis()) {
    TAUT_TRY(const std::size_t axis,
             model::axis_index(parameter.axis(), layer.bottom_shape(0), "argmax_param.axis"));
    const Names found = top_k(layer, layer.bottom(0), signed_of(axis));
    layer.write(0, "Identity", {found[parameter.out_max_val() ? 0 : 1]});
    return ok();
  }
  const std::string records = layer.add("Flatten", {layer.bottom(0)}, {whole("axis", 1)});
  const Names found = top_k(layer, records, 1);
  const std::string result = parameter.out_max_val() ? layer.add("Concat", {found[1], found[0]},
                                                                 {whole("axis", 1)})  // [N, 2 k]
                                                     : found[1];
  layer.write(0, "Reshape", {result, layer.wholes(layer.top_dims(0))});
  return ok();
}

/// Its bottoms are not outputs of the net: that is the purpose of the layer.
Result<void> silence(LayerTranslation& layer) {
  for (std::size_t i = 0; i < layer.bottom_count(); ++i) layer.drop_bottom(i);
  return ok();
}

/// Its bottoms already are outputs of the net.
Result<void> hdf5_output(LayerTranslation&) {
  return ok();
}

/// Parameter: a top that is a parameter.
Result<void> parameter_top(LayerTranslation& layer) {
  layer.write(0, "Identity", {layer.parameter(0)});
  return ok();
}

constexpr LayerOperators kShapeOperators[]{
    {"Concat", concat},   {"Slice", slice},         {"Flatten", reshape},
    {"Reshape", reshape}, {"Split", split},         {"Silence", silence},
    {"Crop", crop},       {"Tile", tile},           {"HDF5Output", hdf5_output},
    {"ArgMax", arg_max},  {"Reduction", reduction}, {"Parameter", parameter_top},
};

}  // namespace

std::span<const LayerOperators> shape_operators() {
  return kShapeOperators;
}

}  // namespace taut::onnx
