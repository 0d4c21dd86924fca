#include "worker/data/image_sequence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

namespace taut::data {
namespace {

Result<void> check_one_channel(const RecordShape& images) {
  const auto& shape = images[0].shape;
  if (shape.size() == 3 && shape[0] == 1) return ok();
  return invalid(fmt::format("images of {} channels: only those of one channel become sequences",
                             shape.empty() ? 0 : shape[0]));
}

/// An image of one channel is stored row by row.
class ImageRows final : public RecordSource {
 public:
  ImageRows(std::shared_ptr<const RecordSource> images, RecordShape fields)
      : images_(std::move(images)), fields_(std::move(fields)) {}

  std::uint64_t size() const override { return images_->size(); }
  const RecordShape& fields() const override { return fields_; }
  Result<void> read(std::uint64_t index, const RecordDraw& draw,
                    std::span<const std::span<float>> into) const override {
    return images_->read(index, draw, into);
  }
  Result<void> check_labels(const LabelRange& range) const override {
    return images_->check_labels(range);
  }

 private:
  const std::shared_ptr<const RecordSource> images_;
  const RecordShape fields_;
};

constexpr std::uint32_t kDirections = 8;

/// A coordinate that bounces between 0 and `most`.
double bounced(double at, double most) {
  if (most <= 0) return 0;
  const double folded = std::fmod(std::abs(at), 2 * most);
  return folded <= most ? folded : 2 * most - folded;
}

class MovingImages final : public RecordSource {
 public:
  MovingImages(std::shared_ptr<const RecordSource> images, const pb::ClipParameter& clip, Part part)
      : images_(std::move(images)),
        fields_(clip_fields(clip)),
        height_(static_cast<std::size_t>(images_->fields()[0].shape[1])),
        width_(static_cast<std::size_t>(images_->fields()[0].shape[2])),
        frames_(clip.frames()),
        side_(clip.size()),
        part_(part) {}

  std::uint64_t size() const override { return images_->size(); }
  const RecordShape& fields() const override { return fields_; }

  Result<void> read(std::uint64_t index, const RecordDraw& draw,
                    std::span<const std::span<float>> into) const override {
    std::vector<float> image(height_ * width_);
    const std::array<std::span<float>, 1> pixels{image};
    TAUT_TRY(images_->read(index, draw, pixels));
    // Well beyond the words that a transform of the images draws.
    constexpr std::uint32_t kFirstWord = 1U << 20U;
    std::array<std::uint32_t, 4> words{};
    const RecordDraw fixed(index, Clock(0), 0);
    const RecordDraw& drawn = part_ == Part::kTrain ? draw : fixed;
    for (std::uint32_t i = 0; i < 4; ++i) words[i] = drawn.word(kFirstWord + i);
    const std::uint32_t direction = words[0] % kDirections;
    draw_frames(image, direction, words, into[0]);
    if (into.size() > 1) into[1][0] = static_cast<float>(direction);
    return ok();
  }

  Result<void> check_labels(const LabelRange& range) const override {
    if (range.field != 1 || range.classes >= kDirections) return ok();
    return invalid(fmt::format("clips have {} directions as labels, but the net has {} classes",
                               kDirections, range.classes));
  }

 private:
  void draw_frames(const std::vector<float>& image, std::uint32_t direction,
                   const std::array<std::uint32_t, 4>& words, std::span<float> frames) const {
    const double angle = direction * std::numbers::pi / (kDirections / 2.0);
    const double speed = 2 + 2 * double{math::unit_float(words[1])};
    const auto max_x = static_cast<double>(side_ - width_);
    const auto max_y = static_cast<double>(side_ - height_);
    const double from_x = max_x * double{math::unit_float(words[2])};
    const double from_y = max_y * double{math::unit_float(words[3])};
    std::ranges::fill(frames, 0.0F);
    for (std::size_t frame = 0; frame < frames_; ++frame) {
      const double distance = speed * static_cast<double>(frame);
      const auto x = static_cast<std::size_t>(bounced(from_x + distance * std::cos(angle), max_x));
      const auto y = static_cast<std::size_t>(bounced(from_y + distance * std::sin(angle), max_y));
      float* corner = frames.data() + (frame * side_ + y) * side_ + x;
      for (std::size_t row = 0; row < height_; ++row) {
        std::copy_n(image.data() + row * width_, width_, corner + row * side_);
      }
    }
  }

  const std::shared_ptr<const RecordSource> images_;
  const RecordShape fields_;
  const std::size_t height_;
  const std::size_t width_;
  const std::size_t frames_;
  const std::size_t side_;
  const Part part_;
};

}  // namespace

Result<RecordShape> row_fields(const RecordShape& images) {
  TAUT_TRY(check_one_channel(images));
  RecordShape fields = images;
  fields[0] = {.shape = {images[0].shape[1], images[0].shape[2]}, .batch_axis = 1};
  return fields;
}

Result<std::shared_ptr<const RecordSource>> image_rows(std::shared_ptr<const RecordSource> images) {
  TAUT_TRY(RecordShape fields, row_fields(images->fields()));
  return std::shared_ptr<const RecordSource>(
      std::make_shared<ImageRows>(std::move(images), std::move(fields)));
}

RecordShape clip_fields(const pb::ClipParameter& clip) {
  const std::int64_t side = clip.size();
  return {{.shape = {std::int64_t{clip.frames()}, 1, side, side}, .batch_axis = 1}, {}};
}

Result<std::shared_ptr<const RecordSource>> moving_images(
    std::shared_ptr<const RecordSource> images, const pb::ClipParameter& clip, Part part) {
  TAUT_TRY(check_one_channel(images->fields()));
  const auto& shape = images->fields()[0].shape;
  const std::int64_t side = clip.size();
  if (side < shape[1] || side < shape[2] || side > 4096) {
    return invalid(fmt::format("clip_param.size is {}; for images of {} x {} it must be {} to 4096",
                               side, shape[1], shape[2], std::max(shape[1], shape[2])));
  }
  if (clip.frames() < 1 || clip.frames() > 4096) {
    return invalid(fmt::format("clip_param.frames must be in 1 to 4096, is {}", clip.frames()));
  }
  return std::shared_ptr<const RecordSource>(
      std::make_shared<MovingImages>(std::move(images), clip, part));
}

}  // namespace taut::data
