#include <fmt/format.h>

#include <algorithm>

#include "worker/model/rules.hpp"

namespace taut::model::rules {
namespace {

Result<std::int64_t> batch_of(std::int64_t given, const GraphOptions& options) {
  if (options.batch > 0) return options.batch;
  if (given % options.batch_divisor == 0) return given / options.batch_divisor;
  return invalid(fmt::format("a batch of {} cannot be split over {} members (global_batch)", given,
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
      fmt::format("transform_param.mean_value is given {} times; the records have {} channels",
                  means, channels));
}

/// The blobs of `batch` records, one for each of the layer's tops.
Result<LayerShapes> batch_shapes(const pb::LayerParameter& layer, const RecordShape& record,
                                 std::int64_t batch) {
  if (static_cast<std::size_t>(layer.top_size()) > record.size()) {
    return invalid(fmt::format("names {} tops, and the records hold {} fields", layer.top_size(),
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

}  // namespace

Result<LayerShapes> settle_data(const pb::LayerParameter& layer, const Shapes&,
                                const GraphOptions& options) {
  if (layer.data_param().batch_size() == 0 && options.batch == 0) {
    return invalid("data_param.batch_size is missing");
  }
  TAUT_TRY(const std::int64_t batch,
           batch_of(std::int64_t{layer.data_param().batch_size()}, options));
  const RecordShape& record = record_of(layer.name(), options);
  TAUT_TRY(check_means(layer.transform_param(), record));
  return batch_shapes(layer, record, batch);
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

}  // namespace taut::model::rules
