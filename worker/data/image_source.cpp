#include "worker/data/image_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace taut::data {
namespace {

/// image  [n]  n pixels of one channel. No pointer aliases another, so that the loop becomes vector
/// instructions.
void scale_pixels(const std::uint8_t* __restrict pixels, std::size_t count, float mean, float scale,
                  float* __restrict image) {
  for (std::size_t i = 0; i < count; ++i) {
    image[i] = (static_cast<float>(pixels[i]) - mean) * scale;
  }
}

Result<void> check_transform(const Transform& transform, const ImageShape& shape) {
  const std::size_t means = transform.mean.size();
  if (means > 1 && means != static_cast<std::size_t>(shape.channels)) {
    return invalid(fmt::format("{} means for images of {} channels: give one, or one for each",
                               means, shape.channels));
  }
  const bool finite = std::all_of(transform.mean.begin(), transform.mean.end(),
                                  [](float mean) { return std::isfinite(mean); });
  if (finite && std::isfinite(transform.scale)) return ok();
  return invalid(fmt::format("the transform's scale {} or one of its means ({}) is no number",
                             transform.scale, fmt::join(transform.mean, ", ")));
}

std::vector<float> channel_means(const Transform& transform, const ImageShape& shape) {
  if (transform.mean.size() > 1) return transform.mean;
  return std::vector<float>(static_cast<std::size_t>(shape.channels),
                            transform.mean.empty() ? 0.0F : transform.mean[0]);
}

class ImageSource final : public RecordSource {
 public:
  ImageSource(std::unique_ptr<ImageStore> store, const Transform& transform)
      : store_(std::move(store)),
        shape_(store_->shape()),
        fields_(labelled_image(shape_.channels, shape_.height, shape_.width)),
        scale_(transform.scale),
        means_(channel_means(transform, shape_)) {}

  std::uint64_t size() const override { return store_->size(); }
  const RecordShape& fields() const override { return fields_; }

  Result<void> read(std::uint64_t index, const RecordDraw& /*draw*/,
                    std::span<const std::span<float>> into) const override {
    TAUT_TRY(const StoredImage image, store_->read(index));
    const auto plane = static_cast<std::size_t>(shape_.height * shape_.width);
    for (std::size_t channel = 0; channel < means_.size(); ++channel) {
      scale_pixels(image.pixels.data() + channel * plane, plane, means_[channel], scale_,
                   into[0].data() + channel * plane);
    }
    if (into.size() > 1) into[1][0] = static_cast<float>(image.label);
    return ok();
  }

  Result<void> check_labels(const LabelRange& range) const override {
    return store_->check_labels(range);
  }

 private:
  const std::unique_ptr<ImageStore> store_;
  const ImageShape shape_;
  const RecordShape fields_;
  const float scale_;
  const std::vector<float> means_;  // for each channel
};

}  // namespace

Result<std::shared_ptr<const RecordSource>> image_source(std::unique_ptr<ImageStore> store,
                                                         Transform transform) {
  TAUT_TRY(check_transform(transform, store->shape()));
  return std::shared_ptr<const RecordSource>(
      std::make_shared<ImageSource>(std::move(store), transform));
}

}  // namespace taut::data
