#include "cli/record_shape.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "worker/data/image_sequence.hpp"
#include "worker/data/open_source.hpp"
#include "worker/model/job_data.hpp"

namespace taut::cli {
namespace {

/// Records that fit what the layer itself says, for data that cannot be looked into: as large as
/// MNIST's, or in colour as CIFAR-10's, where no crop_size tells.
RecordShape likely_fields(const pb::LayerParameter& layer) {
  const pb::TransformationParameter& transform = layer.transform_param();
  const bool colour = transform.mean_value_size() == 3 || transform.force_color() ||
                      (layer.type() == "ImageData" && layer.image_data_param().is_color());
  const std::int64_t crop = transform.crop_size();
  const std::int64_t side = crop > 0 ? crop : colour ? 32 : 28;
  RecordShape images = labelled_image(colour ? 3 : 1, side, side);
  if (!layer.data_param().rows()) return images;
  auto rows = data::row_fields(images);
  return rows ? std::move(rows).value() : images;
}

}  // namespace

JobRecords records_of(const pb::Job& job) {
  JobRecords found;
  found.records.otherwise = labelled_image(1, 28, 28);
  std::vector<model::NetChoice> nets = model::nets_of(job);
  if (nets.size() == 1) nets.push_back({pb::TEST, 0});
  found.records.tests.resize(nets.size() - 1);
  for (const model::NetChoice& choice : nets) {
    const auto layers = model::data_of(job, choice);
    if (!layers) continue;
    const bool trains = choice.phase == pb::TRAIN;
    const data::Part part = trains ? data::Part::kTrain : data::Part::kTest;
    for (const auto& [layer, place] : layers.value()) {
      auto fields = data::peek_fields(layer, {place.folder, place.images, place.labels}, part);
      if (!fields && std::ranges::find(found.unknown, layer.name()) == found.unknown.end()) {
        found.unknown.push_back(layer.name());
      }
      auto& known =
          trains ? found.records.train : found.records.tests[static_cast<std::size_t>(choice.test)];
      known[layer.name()] = fields ? std::move(*fields) : likely_fields(layer);
    }
  }
  return found;
}

}  // namespace taut::cli
