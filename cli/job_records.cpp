#include "cli/job_records.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "worker/data/image_sequence.hpp"
#include "worker/data/open_source.hpp"
#include "worker/model/job/job_data.hpp"
#include "worker/model/job/job_nets.hpp"

namespace taut::cli {
namespace {

/// How many channels the net's Slice layers split a layer's images into; 0 if none does. Pairs of
/// images are in one record as its channels.
std::int64_t sliced_channels(const pb::NetParameter& net, const std::string& images) {
  for (const pb::LayerParameter& layer : net.layer()) {
    const pb::SliceParameter& slice = layer.slice_param();
    const std::int64_t axis =
        slice.has_slice_dim() ? std::int64_t{slice.slice_dim()} : std::int64_t{slice.axis()};
    const bool of_channels = axis == 1;
    if (layer.type() != "Slice" || !of_channels || layer.bottom_size() != 1) continue;
    if (layer.bottom(0) != images) continue;
    if (slice.slice_point_size() == 0) return layer.top_size();
    return std::int64_t{slice.slice_point(slice.slice_point_size() - 1)} + 1;
  }
  return 0;
}

/// Records that fit what the layer itself defines, for data that cannot be inspected: as large as
/// MNIST's, or in color as CIFAR-10's, unless a crop_size gives the size. Mean files are for images
/// in color.
RecordShape likely_fields(const pb::NetParameter& net, const pb::LayerParameter& layer) {
  if (layer.type() == "HDF5Data") {
    RecordShape fields(static_cast<std::size_t>(layer.top_size()));
    if (!fields.empty()) fields[0] = labelled_image(1, 28, 28)[0];
    return fields;
  }
  if (layer.type() == "SparseData") {
    const std::int64_t features = std::max(1U, layer.sparse_data_param().max_features());
    return {{.shape = {features}}, {.shape = {features}}, {}};
  }
  const pb::TransformationParameter& transform = layer.transform_param();
  const bool colour = transform.mean_value_size() == 3 || transform.force_color() ||
                      transform.has_mean_file() || layer.data_param().has_mean_file() ||
                      (layer.type() == "ImageData" && layer.image_data_param().is_color());
  const std::int64_t sliced = layer.top_size() > 0 ? sliced_channels(net, layer.top(0)) : 0;
  const std::int64_t channels = sliced > 0 ? sliced : colour ? 3 : 1;
  const std::int64_t crop =
      layer.data_param().has_crop_size() ? layer.data_param().crop_size() : transform.crop_size();
  const std::int64_t side = crop > 0 ? crop : colour ? 32 : 28;
  RecordShape images = labelled_image(channels, side, side);
  if (!layer.data_param().rows()) return images;
  auto rows = data::row_fields(images);
  return rows ? std::move(rows).value() : images;
}

}  // namespace

JobRecords records_of(const pb::Job& job) {
  JobRecords found;
  found.records.otherwise = labelled_image(1, 28, 28);
  std::vector<model::NetChoice> nets = model::nets_of(job);
  if (nets.size() == 1) nets.emplace_back(pb::TEST, 0);
  found.records.tests.resize(nets.size() - 1);
  for (const model::NetChoice& choice : nets) {
    const auto layers = model::data_of(job, choice);
    if (!layers) continue;
    const pb::NetParameter net = model::net_of(job, choice);
    const bool trains = choice.phase == pb::TRAIN;
    const data::Part part = trains ? data::Part::kTrain : data::Part::kTest;
    for (const auto& [layer, place] : layers.value()) {
      auto fields = data::peek_fields(layer, {place.folder, place.images, place.labels}, part);
      if (!fields && std::ranges::find(found.unknown, layer.name()) == found.unknown.end()) {
        found.unknown.push_back(layer.name());
      }
      auto& known =
          trains ? found.records.train : found.records.tests[static_cast<std::size_t>(choice.test)];
      known[layer.name()] = fields ? std::move(*fields) : likely_fields(net, layer);
    }
  }
  return found;
}

}  // namespace taut::cli
