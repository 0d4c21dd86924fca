#include "worker/data/open_source.hpp"

#include <utility>

#include "worker/data/image_source.hpp"

namespace taut::data {

Result<std::shared_ptr<const RecordSource>> open_source(const pb::LayerParameter& layer,
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

std::optional<RecordShape> peek_fields(const pb::LayerParameter& /*layer*/,
                                       const SourcePlace& place, Part part) {
  const auto shape =
      place.folder.empty() ? peek_idx_file(place.images) : peek_idx_folder(place.folder, part);
  if (!shape) return std::nullopt;
  const auto& [channels, height, width] = shape.value();
  return labelled_image(channels, height, width);
}

}  // namespace taut::data
