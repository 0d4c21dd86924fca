#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "worker/model/extents.hpp"
#include "worker/model/rules/rules.hpp"

namespace taut::model::rules {
namespace {

/// The axis of Concat and Slice, which has two spellings.
Result<std::size_t> axis_of_two(bool has_axis, std::int64_t axis, bool has_dim, std::int64_t dim,
                                const Shape& shape, const std::string& fields) {
  if (has_axis && has_dim) {
    return invalid(fmt::format("{}: two spellings of the same field: give one of them", fields));
  }
  return axis_index(has_dim ? dim : axis, shape, fields);
}

Result<void> check_top_k(std::int64_t top_k, std::int64_t of) {
  if (top_k >= 1 && top_k <= of) return ok();
  return invalid(fmt::format("argmax_param.top_k is {}, but {} elements are ranked", top_k, of));
}

/// The extents that reshape_param.shape gives for bottom[begin, end).
Result<Shape> reshaped(const Shape& bottom, std::size_t begin, std::size_t end,
                       const pb::BlobShape& given) {
  Shape out;
  std::int64_t known = 1;
  std::ptrdiff_t open = -1;
  for (int i = 0; i < given.dim_size(); ++i) {
    std::int64_t extent = given.dim(i);
    if (extent == 0) {
      const std::size_t from = begin + static_cast<std::size_t>(i);
      if (from >= bottom.size()) {
        return invalid(fmt::format("reshape_param.shape copies axis {} of a bottom of shape {}",
                                   from, to_string(bottom)));
      }
      extent = bottom[from];
    }
    if (extent == -1) {
      if (open >= 0)
        return invalid("reshape_param.shape has dim -1 twice: only one can be computed");
      open = i;
    } else if (extent < 0) {
      return invalid(fmt::format(
          "reshape_param.shape has dim {}; 0 copies, -1 is computed, others must be at least 1",
          extent));
    } else {
      TAUT_TRY(check_shape({known, extent}, "reshape_param.shape"));
      known *= extent;
    }
    out.push_back(extent);
  }
  if (open < 0) return out;
  const std::int64_t count = extent_product(bottom, begin, end);
  if (count % known != 0) {
    return invalid(
        fmt::format("reshape_param.shape: {} elements cannot be shared among {}", count, known));
  }
  out[static_cast<std::size_t>(open)] = count / known;
  return out;
}

Result<LayerShapes> settle_concat(const pb::LayerParameter& layer, const Shapes& bottoms,
                                  const GraphOptions&) {
  const pb::ConcatParameter& parameter = layer.concat_param();
  TAUT_TRY(const std::size_t axis,
           axis_of_two(parameter.has_axis(), parameter.axis(), parameter.has_concat_dim(),
                       parameter.concat_dim(), bottoms[0], "concat_param.axis or concat_dim"));
  Shape top = bottoms[0];
  for (std::size_t i = 1; i < bottoms.size(); ++i) {
    Shape expected = bottoms[i];
    if (expected.size() == top.size()) expected[axis] = top[axis];
    if (expected != top) {
      return invalid(
          fmt::format("bottom \"{}\" has shape {}, but bottom \"{}\" has shape {}: only axis {} "
                      "may differ",
                      layer.bottom(0), to_string(bottoms[0]), layer.bottom(static_cast<int>(i)),
                      to_string(bottoms[i]), axis));
    }
    top[axis] += bottoms[i][axis];
  }
  return LayerShapes{{top}, {}};
}

Result<LayerShapes> settle_slice(const pb::LayerParameter& layer, const Shapes& bottoms,
                                 const GraphOptions&) {
  const pb::SliceParameter& parameter = layer.slice_param();
  const Shape& bottom = bottoms[0];
  TAUT_TRY(const std::size_t axis,
           axis_of_two(parameter.has_axis(), parameter.axis(), parameter.has_slice_dim(),
                       parameter.slice_dim(), bottom, "slice_param.axis or slice_dim"));
  const std::int64_t length = bottom[axis];
  const int tops = layer.top_size();
  std::vector<std::int64_t> ends(parameter.slice_point().begin(), parameter.slice_point().end());
  if (ends.empty()) {
    if (length % tops != 0) {
      return invalid(
          fmt::format("{} tops cannot share axis {} of the bottom of shape {} evenly; "
                      "give slice_point",
                      tops, axis, to_string(bottom)));
    }
    for (int i = 1; i < tops; ++i) ends.push_back(length / tops * i);
  }
  if (static_cast<int>(ends.size()) != tops - 1) {
    return invalid(
        fmt::format("slice_param.slice_point is given {} times for {} tops: give one fewer than "
                    "tops",
                    ends.size(), tops));
  }
  ends.push_back(length);
  LayerShapes out;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    if (end <= begin) {
      return invalid(
          fmt::format("slice_param.slice_point: a part from {} to {} of axis {}, whose "
                      "extent is {}; points must rise and stay inside",
                      begin, end, axis, length));
    }
    Shape& top = out.tops.emplace_back(bottom);
    top[axis] = end - begin;
    begin = end;
  }
  return out;
}

Result<LayerShapes> settle_flatten(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  const pb::FlattenParameter& parameter = layer.flatten_param();
  const Shape& bottom = bottoms[0];
  TAUT_TRY(const std::size_t axis, axis_index(parameter.axis(), bottom, "flatten_param.axis"));
  TAUT_TRY(const std::size_t last,
           axis_index(parameter.end_axis(), bottom, "flatten_param.end_axis"));
  if (last < axis) {
    return invalid(fmt::format("flatten_param: end_axis {} is before axis {}", last, axis));
  }
  Shape top(bottom.begin(), bottom.begin() + static_cast<std::ptrdiff_t>(axis));
  top.push_back(extent_product(bottom, axis, last + 1));
  top.insert(top.end(), bottom.begin() + static_cast<std::ptrdiff_t>(last) + 1, bottom.end());
  return LayerShapes{{top}, {}};
}

Result<LayerShapes> settle_reshape(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  const pb::ReshapeParameter& parameter = layer.reshape_param();
  const Shape& bottom = bottoms[0];
  const auto axes = static_cast<std::int64_t>(bottom.size());
  // Here -1 is the place after the last axis: extents can be added there.
  const std::int64_t first = parameter.axis() < 0 ? axes + parameter.axis() + 1 : parameter.axis();
  if (first < 0 || first > axes) {
    return invalid(fmt::format("reshape_param.axis is {}, but the bottom has shape {}",
                               parameter.axis(), to_string(bottom)));
  }
  const std::int64_t count = parameter.num_axes() == -1 ? axes - first : parameter.num_axes();
  if (count < 0 || first + count > axes) {
    return invalid(
        fmt::format("reshape_param.num_axes is {} from axis {} on, but the bottom has "
                    "shape {}",
                    parameter.num_axes(), first, to_string(bottom)));
  }
  const auto begin = static_cast<std::size_t>(first);
  const auto end = static_cast<std::size_t>(first + count);
  TAUT_TRY(const Shape middle, reshaped(bottom, begin, end, parameter.shape()));
  Shape top(bottom.begin(), bottom.begin() + first);
  top.insert(top.end(), middle.begin(), middle.end());
  top.insert(top.end(), bottom.begin() + first + count, bottom.end());
  TAUT_TRY(check_shape(top, "the top"));
  if (element_count(top) != element_count(bottom)) {
    return invalid(
        fmt::format("the bottom of shape {} has {} elements, but the top of shape {} "
                    "has {}",
                    to_string(bottom), element_count(bottom), to_string(top), element_count(top)));
  }
  return LayerShapes{{top}, {}};
}

Result<LayerShapes> settle_crop(const pb::LayerParameter& layer, const Shapes& bottoms,
                                const GraphOptions&) {
  const pb::CropParameter& parameter = layer.crop_param();
  const Shape& bottom = bottoms[0];
  const Shape& size = bottoms[1];
  TAUT_TRY(const std::size_t first, axis_index(parameter.axis(), bottom, "crop_param.axis"));
  const auto given = static_cast<std::size_t>(parameter.offset_size());
  const std::size_t cut = bottom.size() - first;
  if (given > 1 && given != cut) {
    return invalid(
        fmt::format("crop_param.offset is given {} times for {} axes from axis {} on: give "
                    "one for each, "
                    "or one for all",
                    given, cut, first));
  }
  if (size.size() != bottom.size()) {
    return invalid(
        fmt::format("the bottoms have shapes {} and {}: they must have the same number of axes",
                    to_string(bottom), to_string(size)));
  }
  Shape top = bottom;
  for (std::size_t axis = first; axis < bottom.size(); ++axis) {
    const std::int64_t offset = crop_offset(parameter, axis - first);
    if (offset + size[axis] > bottom[axis]) {
      return invalid(
          fmt::format("the first bottom has shape {}, but axis {} of the second, {}, does not fit "
                      "from offset {} "
                      "on",
                      to_string(bottom), axis, to_string(size), offset));
    }
    top[axis] = size[axis];
  }
  return LayerShapes{{top}, {}};
}

Result<LayerShapes> settle_tile(const pb::LayerParameter& layer, const Shapes& bottoms,
                                const GraphOptions&) {
  const pb::TileParameter& parameter = layer.tile_param();
  TAUT_TRY(const std::size_t axis, axis_index(parameter.axis(), bottoms[0], "tile_param.axis"));
  if (parameter.tiles() < 1) {
    return invalid(fmt::format("tile_param.tiles must be at least 1, is {}", parameter.tiles()));
  }
  Shape top = bottoms[0];
  TAUT_TRY(check_shape({top[axis], parameter.tiles()}, "tile_param.tiles"));
  top[axis] *= parameter.tiles();
  return LayerShapes{{top}, {}};
}

Result<LayerShapes> settle_split(const pb::LayerParameter& layer, const Shapes& bottoms,
                                 const GraphOptions&) {
  return LayerShapes{Shapes(static_cast<std::size_t>(layer.top_size()), bottoms[0]), {}};
}

Result<LayerShapes> settle_silence(const pb::LayerParameter&, const Shapes&, const GraphOptions&) {
  return LayerShapes{};
}

Result<LayerShapes> settle_hdf5_output(const pb::LayerParameter& layer, const Shapes& bottoms,
                                       const GraphOptions&) {
  if (layer.hdf5_output_param().file_name().empty()) {
    return invalid("hdf5_output_param.file_name is missing");
  }
  for (const Shape& bottom : bottoms) {
    if (!bottom.empty() && bottom[0] == bottoms[0][0]) continue;
    return invalid(
        fmt::format("bottoms of shape {} and {}: their first extent, the records, must "
                    "be the same",
                    to_string(bottoms[0]), to_string(bottoms[1])));
  }
  return LayerShapes{};
}

Result<LayerShapes> settle_reduction(const pb::LayerParameter& layer, const Shapes& bottoms,
                                     const GraphOptions&) {
  const pb::ReductionParameter& parameter = layer.reduction_param();
  const Shape& bottom = bottoms[0];
  TAUT_TRY(const std::size_t axis, axis_index(parameter.axis(), bottom, "reduction_param.axis"));
  if (!std::isfinite(parameter.coeff())) {
    return invalid(fmt::format("reduction_param.coeff is {}", parameter.coeff()));
  }
  return LayerShapes{{Shape(bottom.begin(), bottom.begin() + static_cast<std::ptrdiff_t>(axis))},
                     {}};
}

Result<LayerShapes> settle_arg_max(const pb::LayerParameter& layer, const Shapes& bottoms,
                                   const GraphOptions&) {
  const pb::ArgMaxParameter& parameter = layer.argmax_param();
  const Shape& bottom = bottoms[0];
  const std::int64_t top_k = parameter.top_k();
  if (parameter.has_axis()) {
    TAUT_TRY(const std::size_t axis, axis_index(parameter.axis(), bottom, "argmax_param.axis"));
    TAUT_TRY(check_top_k(top_k, bottom[axis]));
    Shape top = bottom;
    top[axis] = top_k;
    return LayerShapes{{top}, {}};
  }
  TAUT_TRY(axis_index(0, bottom, "the axis of the records"));
  TAUT_TRY(check_top_k(top_k, extent_product(bottom, 1, bottom.size())));
  Shape top(std::max<std::size_t>(bottom.size(), 3), 1);
  top[0] = bottom[0];
  top[1] = parameter.out_max_val() ? 2 : 1;
  top[2] = top_k;
  return LayerShapes{{top}, {}};
}

constexpr LayerRule kShapeRules[]{
    LayerRule{.type = "Concat",
              .max_bottoms = kMaxLayerBlobs,
              .differentiable_bottoms = kMaxLayerBlobs,
              .settle = settle_concat},
    LayerRule{.type = "Slice", .max_tops = kMaxLayerBlobs, .settle = settle_slice},
    LayerRule{.type = "Flatten", .settle = settle_flatten},
    LayerRule{.type = "Reshape", .settle = settle_reshape},
    LayerRule{.type = "Split", .max_tops = kMaxLayerBlobs, .settle = settle_split},
    LayerRule{.type = "Silence",
              .max_bottoms = kMaxLayerBlobs,
              .min_tops = 0,
              .max_tops = 0,
              .differentiable_bottoms = 0,
              .settle = settle_silence},
    LayerRule{.type = "HDF5Output",
              .min_bottoms = 2,
              .max_bottoms = 2,
              .min_tops = 0,
              .max_tops = 0,
              .differentiable_bottoms = 0,
              .settle = settle_hdf5_output},
    LayerRule{.type = "Crop", .min_bottoms = 2, .max_bottoms = 2, .settle = settle_crop},
    LayerRule{.type = "Tile", .settle = settle_tile},
    LayerRule{.type = "Reduction", .settle = settle_reduction},
    LayerRule{.type = "ArgMax", .differentiable_bottoms = 0, .settle = settle_arg_max},
};

}  // namespace

LayerRules shape_rules() {
  return kShapeRules;
}

}  // namespace taut::model::rules
