#include "worker/data/open_source.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/log.hpp"
#include "worker/data/hdf5_source.hpp"
#include "worker/data/image_sequence.hpp"
#include "worker/data/image_source.hpp"
#include "worker/data/images/folder_kind.hpp"
#include "worker/data/sparse/sparse_source.hpp"
#include "worker/data/text_source.hpp"

namespace taut::data {
namespace {

Colour colour_of(const pb::LayerParameter& layer) {
  if (layer.type() == "ImageData") {
    return layer.image_data_param().is_color() ? Colour::kColour : Colour::kGray;
  }
  if (layer.transform_param().force_gray()) return Colour::kGray;
  const bool colour =
      layer.transform_param().force_color() || layer.data_param().force_encoded_color();
  return colour ? Colour::kColour : Colour::kAsStored;
}

Result<std::unique_ptr<ImageStore>> open_store(const pb::LayerParameter& layer,
                                               const SourcePlace& place, Part part) {
  if (place.folder.empty()) return open_idx_files(place.images, place.labels);
  if (layer.type() == "ImageData") {
    const pb::ImageDataParameter& given = layer.image_data_param();
    return open_image_list(place.folder, {.root = given.root_folder(),
                                          .height = given.new_height(),
                                          .width = given.new_width(),
                                          .colour = colour_of(layer)});
  }
  switch (kind_of(place.folder)) {
    case FolderKind::kLmdb:
      return open_lmdb(place.folder, colour_of(layer));
    case FolderKind::kCifar10:
      return open_cifar10(place.folder, part);
    case FolderKind::kLevelDb:
      return no_leveldb(place.folder);
    case FolderKind::kIdx:
    case FolderKind::kOther:
      break;
  }
  return open_idx_folder(place.folder, part);  // reports what is missing
}

/// transform_param, or Caffe's older fields of data_param.
Result<Transform> transform_of(const pb::LayerParameter& layer, Part part) {
  const pb::TransformationParameter& given = layer.transform_param();
  const pb::DataParameter& older = layer.data_param();
  if (given.force_color() && given.force_gray()) {
    return invalid("force_color and force_gray are both set: choose one");
  }
  Transform transform;
  transform.scale = older.has_scale() ? older.scale() : given.scale();
  transform.mean.assign(given.mean_value().begin(), given.mean_value().end());
  transform.crop = older.has_crop_size() ? older.crop_size() : given.crop_size();
  transform.random_crop = part == Part::kTrain;
  transform.mirror = given.mirror() || older.mirror();
  const std::string& mean_file = older.has_mean_file() ? older.mean_file() : given.mean_file();
  if (!mean_file.empty()) {
    TAUT_TRY(transform.mean_image, read_mean(mean_file));
  }
  return transform;
}

bool is_text(const pb::LayerParameter& layer) {
  return layer.data_param().backend() == pb::DataParameter::TEXT;
}

Result<std::shared_ptr<const RecordSource>> open_images(const pb::LayerParameter& layer,
                                                        const SourcePlace& place, Part part) {
  TAUT_TRY(Transform transform, transform_of(layer, part));
  TAUT_TRY(auto store, open_store(layer, place, part));
  if (layer.data_param().backend() == pb::DataParameter::LEVELDB) {
    log::info("layer \"{}\": backend is LEVELDB; {} is read in the format of its files",
              layer.name(), place.folder.empty() ? place.images : place.folder);
  }
  auto source = image_source(std::move(store), std::move(transform),
                             place.folder.empty() ? place.images : place.folder);
  if (source) return source;
  return invalid(fmt::format("layer \"{}\": {}", layer.name(), source.error().message));
}

/// The images unchanged, or as the sequences that the layer requires.
Result<std::shared_ptr<const RecordSource>> as_requested(std::shared_ptr<const RecordSource> images,
                                                         const pb::LayerParameter& layer,
                                                         Part part) {
  if (layer.has_clip_param()) return moving_images(std::move(images), layer.clip_param(), part);
  if (layer.data_param().rows()) return image_rows(std::move(images));
  return images;
}

/// The shape of the transformed images.
std::optional<ImageShape> peek_images(const pb::LayerParameter& layer, const SourcePlace& place,
                                      Part part) {
  ImageShape shape;
  const bool in_images = layer.type() != "ImageData";
  const FolderKind kind = kind_of(place.folder);
  if (place.folder.empty() ||
      (in_images && (kind == FolderKind::kIdx || kind == FolderKind::kOther))) {
    const auto head =
        place.folder.empty() ? peek_idx_file(place.images) : peek_idx_folder(place.folder, part);
    if (!head) return std::nullopt;
    shape = head.value();
  } else if (in_images && kind == FolderKind::kCifar10) {
    shape = {3, 32, 32};
  } else {
    const auto store = open_store(layer, place, part);
    if (!store) return std::nullopt;
    shape = store.value()->shape();
  }
  const std::int64_t crop = layer.data_param().has_crop_size()
                                ? layer.data_param().crop_size()
                                : layer.transform_param().crop_size();
  if (crop > 0) shape = {shape.channels, crop, crop};
  return shape;
}

}  // namespace

Result<std::shared_ptr<const RecordSource>> open_source(const pb::LayerParameter& layer,
                                                        const SourcePlace& place, Part part) {
  if (is_text(layer)) return open_text(layer.text_param(), place.folder, part);
  if (layer.type() == "HDF5Data") return open_hdf5(layer, place.folder);
  if (layer.type() == "SparseData") return open_sparse(layer, place.folder, part);
  TAUT_TRY(auto images, open_images(layer, place, part));
  return as_requested(std::move(images), layer, part);
}

std::optional<RecordShape> peek_fields(const pb::LayerParameter& layer, const SourcePlace& place,
                                       Part part) {
  if (is_text(layer)) return text_fields(layer.text_param());
  if (layer.type() == "HDF5Data") return peek_hdf5(layer, place.folder);
  if (layer.type() == "SparseData") return peek_sparse(layer, place.folder);
  if (layer.has_clip_param()) return clip_fields(layer.clip_param());
  const auto shape = peek_images(layer, place, part);
  if (!shape) return std::nullopt;
  const RecordShape images = labelled_image(shape->channels, shape->height, shape->width);
  if (!layer.data_param().rows()) return images;
  const auto rows = row_fields(images);
  return rows ? std::optional(rows.value()) : std::nullopt;
}

}  // namespace taut::data
