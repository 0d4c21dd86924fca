#include "worker/tools/image_job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/file.hpp"
#include "worker/data/open_source.hpp"
#include "worker/data/transform.hpp"
#include "worker/model/job/job_data.hpp"
#include "worker/model/rules/layer_rule.hpp"

namespace taut::worker {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxBatch = 16;

struct Size {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// The size of a data layer's images at the net's input, if its fields or data determine it.
std::optional<Size> size_of(const model::LayerData& data) {
  const pb::LayerParameter& layer = data.layer;
  if (layer.type() == "Input") {
    if (layer.input_param().shape_size() == 0 || layer.input_param().shape(0).dim_size() != 4) {
      return std::nullopt;
    }
    const auto& dims = layer.input_param().shape(0).dim();
    return Size{dims[1], dims[2], dims[3]};
  }
  const auto fields = data::peek_fields(
      layer, {data.place.folder, data.place.images, data.place.labels}, data::Part::kTest);
  if (fields && (*fields)[0].shape.size() == 3) {
    const auto& shape = (*fields)[0].shape;
    return Size{shape[0], shape[1], shape[2]};
  }
  const std::int64_t crop =
      std::max(layer.transform_param().crop_size(), layer.data_param().crop_size());
  if (crop > 0) return Size{3, crop, crop};
  return std::nullopt;
}

/// The only layer that the images can replace.
Result<model::LayerData> replaced_layer(const pb::Job& job) {
  TAUT_TRY(auto layers, model::data_of(job, pb::TEST));
  if (layers.size() != 1) {
    return invalid(fmt::format(
        "the net's TEST phase has {} data layers; images can replace exactly one", layers.size()));
  }
  const pb::DataParameter& data = layers[0].layer.data_param();
  if (data.backend() == pb::DataParameter::TEXT || data.rows() ||
      layers[0].layer.has_clip_param()) {
    return invalid(
        fmt::format("layer \"{}\" is fed sequences; give no images to use its own "
                    "data",
                    layers[0].layer.name()));
  }
  return std::move(layers[0]);
}

/// A layer that computes may have the same name as one that is fed.
bool reads_data(const pb::LayerParameter& layer) {
  const auto rule = model::find_rule(layer.type());
  return rule && rule.value()->is_fed && layer.type() != "DummyData";
}

/// Caffe's list: a path and a label on each line.
Result<fs::path> write_list(const pb::ToolRequest& request) {
  std::string text;
  for (const std::string& image : request.images()) {
    if (image.find('\n') != std::string::npos) return invalid("an image's path has two lines");
    std::error_code failed;
    text += fs::absolute(image, failed).string() + " 0\n";
  }
  fs::path list = fs::temp_directory_path() / fmt::format("tautline-images-{}.txt", getpid());
  TAUT_TRY(write_file_atomically(list, text));
  return list;
}

Result<pb::LayerParameter> image_layer(const pb::LayerParameter& layer,
                                       const pb::ToolRequest& request, const Size& size,
                                       const fs::path& list) {
  pb::LayerParameter out;
  out.set_name(layer.name());
  out.set_type("ImageData");
  *out.mutable_top() = layer.top();
  if (layer.has_transform_param()) *out.mutable_transform_param() = layer.transform_param();
  pb::TransformationParameter& transform = *out.mutable_transform_param();
  const pb::DataParameter& older = layer.data_param();
  if (older.has_scale()) transform.set_scale(older.scale());
  if (older.has_mean_file()) transform.set_mean_file(older.mean_file());
  if (older.has_crop_size()) transform.set_crop_size(older.crop_size());
  transform.clear_mirror();
  pb::ImageDataParameter& images = *out.mutable_image_data_param();
  images.set_source(list.string());
  images.set_batch_size(static_cast<std::uint32_t>(std::min(request.images_size(), kMaxBatch)));
  images.set_is_color(size.channels == 3);
  const bool requested = request.height() > 0;
  images.set_new_height(requested ? request.height() : static_cast<std::uint32_t>(size.height));
  images.set_new_width(requested ? request.width() : static_cast<std::uint32_t>(size.width));
  if (requested) return out;
  if (layer.image_data_param().new_height() > 0) {
    images.set_new_height(layer.image_data_param().new_height());
    images.set_new_width(layer.image_data_param().new_width());
  } else if (transform.has_mean_file()) {
    // A mean file is for whole images, before cropping.
    TAUT_TRY(const data::MeanImage mean, data::read_mean(transform.mean_file()));
    images.set_new_height(static_cast<std::uint32_t>(mean.shape.height));
    images.set_new_width(static_cast<std::uint32_t>(mean.shape.width));
  }
  return out;
}

}  // namespace

Result<ImageJob> ImageJob::create(const pb::Job& job, const pb::ToolRequest& request) {
  TAUT_TRY(const model::LayerData data, replaced_layer(job));
  std::optional<Size> size = size_of(data);
  if (!size && request.height() > 0) size = Size{3, request.height(), request.width()};
  if (!size || (size->channels != 1 && size->channels != 3)) {
    return invalid(
        fmt::format("layer \"{}\": the size of its images is unknown; give --resize "
                    "HEIGHTxWIDTH, or its data with --data",
                    data.layer.name()));
  }
  ImageJob image_job;
  TAUT_TRY(image_job.list_, write_list(request));
  image_job.job_ = job;
  image_job.job_.clear_data();
  pb::NetParameter& net = *image_job.job_.mutable_net_param();
  net.clear_layer();
  TAUT_TRY(*net.add_layer(), image_layer(data.layer, request, *size, image_job.list_));
  for (const pb::LayerParameter& layer : job.net_param().layer()) {
    // TRAIN's data layer may have the same name: both are replaced.
    if (layer.name() != data.layer.name() || !reads_data(layer)) *net.add_layer() = layer;
  }
  return image_job;
}

ImageJob::ImageJob(ImageJob&& other) noexcept
    : job_(std::move(other.job_)), list_(std::exchange(other.list_, {})) {}

ImageJob& ImageJob::operator=(ImageJob&& other) noexcept {
  std::swap(job_, other.job_);
  std::swap(list_, other.list_);
  return *this;
}

std::string ImageJob::without_list(const std::string& message) const {
  const std::size_t at = message.find(list_.string() + ": ");
  if (at == std::string::npos) return message;
  std::string rest = message.substr(at + list_.string().size() + 2);
  // "record 3: " counts the list's lines.
  if (rest.starts_with("record ")) rest.erase(0, std::min(rest.find(": ") + 2, rest.size()));
  return rest;
}

ImageJob::~ImageJob() {
  std::error_code ignored;
  if (!list_.empty()) fs::remove(list_, ignored);
}

}  // namespace taut::worker
