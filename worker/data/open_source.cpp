#include "worker/data/open_source.hpp"

#include <utility>

#include "worker/data/image_sequence.hpp"
#include "worker/data/image_source.hpp"
#include "worker/data/text_source.hpp"

namespace taut::data {

namespace {

bool is_text(const pb::LayerParameter& layer) {
  return layer.data_param().backend() == pb::DataParameter::TEXT;
}

Result<std::shared_ptr<const RecordSource>> open_images(const pb::LayerParameter& layer,
                                                        const SourcePlace& place, Part part) {
  std::unique_ptr<ImageStore> store;
  if (place.folder.empty()) {
    TAUT_TRY(store, open_idx_files(place.images, place.labels));
  } else {
    TAUT_TRY(store, open_idx_folder(place.folder, part));
  }
  const pb::TransformationParameter& given = layer.transform_param();
  return image_source(std::move(store),
                      {given.scale(), {given.mean_value().begin(), given.mean_value().end()}});
}

/// The images as they are, or as the sequences that the layer wants.
Result<std::shared_ptr<const RecordSource>> as_wanted(std::shared_ptr<const RecordSource> images,
                                                      const pb::LayerParameter& layer, Part part) {
  if (layer.has_clip_param()) return moving_images(std::move(images), layer.clip_param(), part);
  if (layer.data_param().rows()) return image_rows(std::move(images));
  return images;
}

}  // namespace

Result<std::shared_ptr<const RecordSource>> open_source(const pb::LayerParameter& layer,
                                                        const SourcePlace& place, Part part) {
  if (is_text(layer)) return open_text(layer.text_param(), place.folder, part);
  TAUT_TRY(auto images, open_images(layer, place, part));
  return as_wanted(std::move(images), layer, part);
}

std::optional<RecordShape> peek_fields(const pb::LayerParameter& layer, const SourcePlace& place,
                                       Part part) {
  if (is_text(layer)) return text_fields(layer.text_param());
  if (layer.has_clip_param()) return clip_fields(layer.clip_param());
  const auto shape =
      place.folder.empty() ? peek_idx_file(place.images) : peek_idx_folder(place.folder, part);
  if (!shape) return std::nullopt;
  const auto& [channels, height, width] = shape.value();
  const RecordShape images = labelled_image(channels, height, width);
  if (!layer.data_param().rows()) return images;
  const auto rows = row_fields(images);
  return rows ? std::optional(rows.value()) : std::nullopt;
}

}  // namespace taut::data
