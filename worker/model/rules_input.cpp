#include <fmt/format.h>

#include "worker/model/rules.hpp"

namespace taut::model::rules {

Result<LayerShapes> settle_data(const pb::LayerParameter& layer, const Shapes&,
                                const GraphOptions& options) {
  const std::int64_t batch =
      options.batch > 0 ? options.batch : std::int64_t{layer.data_param().batch_size()};
  if (batch == 0) return invalid("data_param.batch_size is missing");
  const RecordShape& record = options.record;
  const int means = layer.transform_param().mean_value_size();
  if (means > 1 && means != record.channels) {
    return invalid(
        fmt::format("transform_param.mean_value is given {} times; the records have {} "
                    "channels",
                    means, record.channels));
  }
  LayerShapes out{{{batch, record.channels, record.height, record.width}}, {}};
  if (layer.top_size() == 2) out.tops.push_back({batch});
  return out;
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
