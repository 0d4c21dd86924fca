#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "worker/model/extents.hpp"
#include "worker/model/rules/rules.hpp"

namespace taut::model::rules {
namespace {

Result<std::int64_t> batch_of(std::int64_t given, const GraphOptions& options) {
  if (options.batch > 0) return options.batch;
  if (given % options.batch_divisor == 0) return given / options.batch_divisor;
  return invalid(
      fmt::format("a batch of {} cannot be split over {} members (global_batch) or devices", given,
                  options.batch_divisor));
}

const RecordShape& record_of(const std::string& layer, const GraphOptions& options) {
  const auto found = options.records.find(layer);
  return found == options.records.end() ? options.record : found->second;
}

Result<void> check_means(const pb::TransformationParameter& transform, const RecordShape& record) {
  const int means = transform.mean_value_size();
  if (means <= 1 || record.empty() || record[0].shape.size() != 3) return ok();
  const std::int64_t channels = record[0].shape[0];
  if (means == channels) return ok();
  return invalid(
      fmt::format("transform_param.mean_value is given {} times, but the records have {} channels",
                  means, channels));
}

/// Errors: invalid, a field that is given neither once nor once per top (nor, if `min_tops` is 0,
/// left out).
Result<void> check_given(const char* field, int given, int min_tops, int tops) {
  if (given == 1 || given == tops || (given == 0 && min_tops == 0)) return ok();
  return invalid(
      fmt::format("dummy_data_param.{} is given {} times for {} tops: give one for each, "
                  "or one for all",
                  field, given, tops));
}

/// The parameters of a data layer and the batch_size in them.
std::pair<const char*, std::int64_t> given_batch(const pb::LayerParameter& layer) {
  if (layer.type() == "ImageData") {
    return {"image_data_param", layer.image_data_param().batch_size()};
  }
  if (layer.type() == "HDF5Data") return {"hdf5_data_param", layer.hdf5_data_param().batch_size()};
  if (layer.type() == "SparseData") {
    return {"sparse_data_param", layer.sparse_data_param().batch_size()};
  }
  return {"data_param", layer.data_param().batch_size()};
}

/// The blobs of `batch` records, one for each of the layer's tops.
Result<LayerShapes> batch_shapes(const pb::LayerParameter& layer, const RecordShape& record,
                                 std::int64_t batch) {
  if (static_cast<std::size_t>(layer.top_size()) > record.size()) {
    return invalid(fmt::format("has {} tops, but the records have {} fields", layer.top_size(),
                               record.size()));
  }
  LayerShapes out;
  for (int i = 0; i < layer.top_size(); ++i) {
    const RecordField& field = record[static_cast<std::size_t>(i)];
    Shape shape = field.shape;
    const std::size_t axis = std::min(field.batch_axis, shape.size());
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), batch);
    out.tops.push_back(std::move(shape));
  }
  return out;
}

Result<LayerShapes> settle_data(const pb::LayerParameter& layer, const Shapes&,
                                const GraphOptions& options) {
  const auto [field, given] = given_batch(layer);
  if (given == 0 && options.batch == 0) {
    return invalid(fmt::format("{}.batch_size is missing", field));
  }
  if (layer.type() == "HDF5Data" && layer.has_transform_param()) {
    return invalid(
        "transform_param is given, but HDF5Data does not transform its arrays: put a Power layer "
        "(scale, shift) after it");
  }
  TAUT_TRY(const std::int64_t batch, batch_of(given, options));
  const RecordShape& record = record_of(layer.name(), options);
  TAUT_TRY(check_means(layer.transform_param(), record));
  return batch_shapes(layer, record, batch);
}

/// Errors: invalid, columns that are named twice, or columns for a format without columns.
Result<void> check_columns(const pb::SparseDataParameter& given) {
  if (given.format() != pb::SparseDataParameter::TABLE) {
    const char* field = given.category_size() > 0 ? "category"
                        : given.number_size() > 0 ? "number"
                        : given.has_label()       ? "label"
                        : given.has_separator()   ? "separator"
                                                  : nullptr;
    if (field == nullptr) return ok();
    return invalid(fmt::format(
        "sparse_data_param.{} is for format TABLE, and the format is LIBSVM; omit it", field));
  }
  if (!given.has_label()) {
    return invalid("sparse_data_param.label is missing: name the column of the label");
  }
  if (given.category_size() + given.number_size() == 0) {
    return invalid("sparse_data_param names no column: give category or number");
  }
  if (given.separator().size() != 1 || given.separator().find_first_of("\"\r\n") == 0) {
    return invalid(
        fmt::format("sparse_data_param.separator must be one character, no quote and no line end, "
                    "is \"{}\"",
                    given.separator()));
  }
  std::set<std::string> names{given.label()};
  for (const auto* columns : {&given.category(), &given.number()}) {
    for (const std::string& column : *columns) {
      if (names.insert(column).second) continue;
      return invalid(
          fmt::format("sparse_data_param names the column \"{}\" twice: it has one use", column));
    }
  }
  return ok();
}

Result<LayerShapes> settle_sparse_data(const pb::LayerParameter& layer, const Shapes& bottoms,
                                       const GraphOptions& options) {
  constexpr std::uint64_t kMaxFeatures = 1ULL << 32U;  // numbers are 32 bits
  constexpr std::uint32_t kMaxFeaturesOfRecord = 1U << 16U;
  const pb::SparseDataParameter& given = layer.sparse_data_param();
  if (!given.has_features()) {
    return invalid("sparse_data_param.features is missing: say how many features there are");
  }
  if (given.features() == 0 || given.features() > kMaxFeatures) {
    return invalid(fmt::format("sparse_data_param.features must be from 1 to {}, is {}",
                               kMaxFeatures, given.features()));
  }
  if (given.has_max_features() &&
      (given.max_features() == 0 || given.max_features() > kMaxFeaturesOfRecord)) {
    return invalid(fmt::format("sparse_data_param.max_features must be from 1 to {}, is {}",
                               kMaxFeaturesOfRecord, given.max_features()));
  }
  TAUT_TRY(check_columns(given));
  if (layer.has_transform_param()) {
    return invalid(
        "transform_param is given, but SparseData does not transform its values: put a Power layer "
        "(scale, shift) after it");
  }
  return settle_data(layer, bottoms, options);
}

Result<LayerShapes> settle_dummy_data(const pb::LayerParameter& layer, const Shapes&,
                                      const GraphOptions& options) {
  const pb::DummyDataParameter& given = layer.dummy_data_param();
  const int tops = layer.top_size();
  const int older = given.num_size();
  const int shapes = older > 0 ? older : given.shape_size();
  if (older > 0 && (given.shape_size() > 0 || given.channels_size() != older ||
                    given.height_size() != older || given.width_size() != older)) {
    return invalid("dummy_data_param: give shape, or num, channels, height and width as often");
  }
  TAUT_TRY(check_given("shape", shapes, 1, tops));
  TAUT_TRY(check_given("data_filler", given.data_filler_size(), 0, tops));
  TAUT_TRY(check_given("classes", given.classes_size(), 0, tops));
  LayerShapes out;
  for (int top = 0; top < tops; ++top) {
    const int i = shapes == 1 ? 0 : top;
    Shape shape;
    if (older > 0) {
      shape = {given.num(i), given.channels(i), given.height(i), given.width(i)};
    } else {
      shape.assign(given.shape(i).dim().begin(), given.shape(i).dim().end());
    }
    if (!shape.empty()) {
      TAUT_TRY(shape[0], batch_of(shape[0], options));
    }
    out.tops.push_back(std::move(shape));
  }
  return out;
}

Result<LayerShapes> settle_parameter(const pb::LayerParameter& layer, const Shapes&,
                                     const GraphOptions&) {
  const pb::BlobShape& given = layer.parameter_param().shape();
  if (!layer.parameter_param().has_shape()) return invalid("parameter_param.shape is missing");
  const Shape shape(given.dim().begin(), given.dim().end());
  TAUT_TRY(check_shape(shape, "parameter_param.shape"));
  return LayerShapes{{shape}, {{"weight", shape, {}}}};
}

Result<LayerShapes> settle_input(const pb::LayerParameter& layer, const Shapes&,
                                 const GraphOptions&) {
  const auto& shapes = layer.input_param().shape();
  if (shapes.size() != 1 && shapes.size() != layer.top_size()) {
    return invalid(
        fmt::format("input_param.shape is given {} times for {} tops: give one for each "
                    "top, or one for all",
                    shapes.size(), layer.top_size()));
  }
  LayerShapes out;
  for (int i = 0; i < layer.top_size(); ++i) {
    const auto& dims = shapes.Get(shapes.size() == 1 ? 0 : i).dim();
    out.tops.emplace_back(dims.begin(), dims.end());
  }
  return out;
}

constexpr LayerRule kInputRules[]{
    LayerRule{.type = "Data",
              .min_bottoms = 0,
              .max_bottoms = 0,
              .max_tops = 64,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = settle_data},
    LayerRule{.type = "ImageData",
              .min_bottoms = 0,
              .max_bottoms = 0,
              .max_tops = 2,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = settle_data},
    LayerRule{.type = "HDF5Data",
              .min_bottoms = 0,
              .max_bottoms = 0,
              .max_tops = 64,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = settle_data},
    LayerRule{.type = "SparseData",
              .min_bottoms = 0,
              .max_bottoms = 0,
              .max_tops = 3,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = settle_sparse_data},
    LayerRule{.type = "DummyData",
              .min_bottoms = 0,
              .max_bottoms = 0,
              .max_tops = 64,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = settle_dummy_data},
    LayerRule{.type = "Parameter",
              .min_bottoms = 0,
              .max_bottoms = 0,
              .differentiable_bottoms = 0,
              .settle = settle_parameter},
    LayerRule{.type = "Input",
              .min_bottoms = 0,
              .max_bottoms = 0,
              .max_tops = 64,
              .differentiable_bottoms = 0,
              .top_must_stay = true,
              .is_fed = true,
              .settle = settle_input},
};

}  // namespace

LayerRules input_rules() {
  return kInputRules;
}

}  // namespace taut::model::rules
