#include "worker/data/transform.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace taut::data {
namespace {

/// line  [n]  n pixels of one channel. No pointer aliases another, so that the loops become vector
/// instructions.
template <class Pixel>
void shift_and_scale(const Pixel* __restrict pixels, std::size_t count, float mean, float scale,
                     float* __restrict line) {
  for (std::size_t i = 0; i < count; ++i) {
    line[i] = (static_cast<float>(pixels[i]) - mean) * scale;
  }
}

template <class Pixel>
void shift_and_scale(const Pixel* __restrict pixels, std::size_t count,
                     const float* __restrict means, float scale, float* __restrict line) {
  for (std::size_t i = 0; i < count; ++i) {
    line[i] = (static_cast<float>(pixels[i]) - means[i]) * scale;
  }
}

/// The use of a draw's words.
enum Word : std::uint32_t { kTop, kLeft, kMirror };

std::int64_t below(std::uint32_t word, std::int64_t bound) {
  return static_cast<std::int64_t>((std::uint64_t{word} * static_cast<std::uint64_t>(bound)) >>
                                   32U);
}

/// The start of the part of an image that is kept.
struct Window {
  std::int64_t top = 0;
  std::int64_t left = 0;
  bool mirrored = false;
};

Window window_of(const Transform& transform, const ImageShape& in, const ImageShape& out,
                 const RecordDraw& draw) {
  Window window{(in.height - out.height) / 2, (in.width - out.width) / 2, false};
  if (transform.crop > 0 && transform.random_crop) {
    window.top = below(draw.word(kTop), in.height - out.height + 1);
    window.left = below(draw.word(kLeft), in.width - out.width + 1);
  }
  if (transform.mirror) window.mirrored = draw.word(kMirror) % 2 == 1;
  return window;
}

Result<void> check_numbers(const Transform& transform) {
  const bool finite = std::all_of(transform.mean.begin(), transform.mean.end(),
                                  [](float mean) { return std::isfinite(mean); });
  if (finite && std::isfinite(transform.scale)) return ok();
  return invalid(fmt::format("the transform's scale {} or one of its means ({}) is not finite",
                             transform.scale, fmt::join(transform.mean, ", ")));
}

std::string to_string(const ImageShape& shape) {
  return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width);
}

}  // namespace

Result<ImageTransform> ImageTransform::create(Transform transform, const ImageShape& first) {
  const std::size_t means = transform.mean.size();
  if (means > 1 && means != static_cast<std::size_t>(first.channels)) {
    return invalid(fmt::format("{} means for images of {} channels: give one, or one for each",
                               means, first.channels));
  }
  if (means > 0 && transform.mean_image) {
    return invalid("mean_value and mean_file are both given: use one of them");
  }
  TAUT_TRY(check_numbers(transform));
  ImageTransform image_transform(std::move(transform), first);
  TAUT_TRY(image_transform.check(first));
  return image_transform;
}

ImageTransform::ImageTransform(Transform transform, const ImageShape& first)
    : transform_(std::move(transform)), first_(first), out_(first) {
  if (transform_.crop > 0) out_ = {first.channels, transform_.crop, transform_.crop};
  means_ = transform_.mean;
  if (means_.empty()) means_ = {0.0F};
  if (means_.size() == 1) means_.resize(static_cast<std::size_t>(first.channels), means_[0]);
}

Result<void> ImageTransform::check(const ImageShape& shape) const {
  if (transform_.mean_image && !(transform_.mean_image->shape == shape)) {
    return invalid(fmt::format("the mean file is of {}, and the image of {}",
                               to_string(transform_.mean_image->shape), to_string(shape)));
  }
  if (transform_.crop == 0) {
    if (shape == first_) return ok();
    return invalid(
        fmt::format("is of {}, and the first image of {}: give crop_size, or resize "
                    "them",
                    to_string(shape), to_string(first_)));
  }
  if (shape.channels == first_.channels && shape.height >= out_.height &&
      shape.width >= out_.width) {
    return ok();
  }
  return invalid(
      fmt::format("crop_size {} does not fit an image of {}", transform_.crop, to_string(shape)));
}

Result<void> ImageTransform::apply(const StoredImage& image, const RecordDraw& draw,
                                   std::span<float> into) const {
  TAUT_TRY(check(image.shape));
  const ImageShape& in = image.shape;
  const Window window = window_of(transform_, in, out_, draw);
  const auto width = static_cast<std::size_t>(out_.width);
  float* line = into.data();
  for (std::int64_t channel = 0; channel < out_.channels; ++channel) {
    const float mean = means_[static_cast<std::size_t>(channel)];
    for (std::int64_t row = 0; row < out_.height; ++row, line += width) {
      const auto at = static_cast<std::size_t>((channel * in.height + window.top + row) * in.width +
                                               window.left);
      const auto write = [&](const auto* pixels) {
        if (transform_.mean_image) {
          shift_and_scale(pixels + at, width, transform_.mean_image->values.data() + at,
                          transform_.scale, line);
        } else {
          shift_and_scale(pixels + at, width, mean, transform_.scale, line);
        }
      };
      if (image.floats.empty()) {
        write(image.pixels.data());
      } else {
        write(image.floats.data());
      }
      if (window.mirrored) std::reverse(line, line + width);
    }
  }
  return ok();
}

}  // namespace taut::data
