#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/data/images/image_store.hpp"

namespace taut::data {

/// A mean for each number of an image.
struct MeanImage {
  ImageShape shape;
  std::vector<float> values;
};

/// Understands Caffe's mean file: a serialized BlobProto of 1 x C x H x W floats.
/// name      of the file, for messages
/// Errors    invalid: no BlobProto, extents that do not fit the numbers, a number that is none
[[nodiscard]] Result<MeanImage> parse_mean(const std::string& bytes, const std::string& name);
[[nodiscard]] Result<MeanImage> read_mean(const std::filesystem::path& path);
[[nodiscard]] std::string to_mean_file(const MeanImage& mean);

/// What becomes of a pixel: (pixel - mean) * scale; and of an image: cropped, mirrored.
struct Transform {
  float scale = 1;
  std::vector<float> mean;              // none, one for all channels, or one for each
  std::optional<MeanImage> mean_image;  // instead; of the image before it is cropped
  std::int64_t crop = 0;                // side of a square; 0: the whole image
  bool random_crop = false;             // else from the centre
  bool mirror = false;                  // left and right change places in every other image
};

/// A transform that fits a store's images.
/// Source    Caffe, data_transformer.cpp
class ImageTransform {
 public:
  /// Errors    invalid: means that fit neither all channels nor each, or means of two kinds; a
  ///           scale or a mean that is no number; a crop or a mean image that does not fit `first`
  [[nodiscard]] static Result<ImageTransform> create(Transform transform, const ImageShape& first);

  /// Of the result.
  [[nodiscard]] const ImageShape& shape() const { return out_; }

  /// into      [shape().pixels()]
  /// Errors    invalid, without the image's name: another shape than the transform fits
  [[nodiscard]] Result<void> apply(const StoredImage& image, const RecordDraw& draw,
                                   std::span<float> into) const;

 private:
  ImageTransform(Transform transform, const ImageShape& first);
  [[nodiscard]] Result<void> check(const ImageShape& shape) const;

  Transform transform_;
  ImageShape first_;
  ImageShape out_;
  std::vector<float> means_;  // for each channel
};

}  // namespace taut::data
