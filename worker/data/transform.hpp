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

/// A mean for each value of an image.
struct MeanImage {
  ImageShape shape;
  std::vector<float> values;
};

/// Parses Caffe's mean file: a serialized BlobProto of 1 x C x H x W floats.
/// name      of the file, for messages
/// Errors    invalid: no BlobProto, extents that do not fit the values, a value that is not finite
[[nodiscard]] Result<MeanImage> parse_mean(const std::string& bytes, const std::string& name);
[[nodiscard]] Result<MeanImage> read_mean(const std::filesystem::path& path);
[[nodiscard]] std::string to_mean_file(const MeanImage& mean);

/// Each pixel becomes (pixel - mean) * scale; the image is cropped and mirrored.
struct Transform {
  float scale = 1;
  std::vector<float> mean;              // none, one for all channels, or one for each
  std::optional<MeanImage> mean_image;  // instead of `mean`; for the image before cropping
  std::int64_t crop = 0;                // side of a square; 0: the whole image
  bool random_crop = false;             // else from the centre
  bool mirror = false;                  // flips an image horizontally with probability 1/2
};

/// A transform that fits a store's images.
/// Source    Caffe, data_transformer.cpp
class ImageTransform {
 public:
  /// Errors    invalid: neither one mean nor one per channel, or means of two kinds; a scale or a
  ///           mean that is not finite; a crop or a mean image that does not fit `first`
  [[nodiscard]] static Result<ImageTransform> create(Transform transform, const ImageShape& first);

  /// The shape of the result.
  [[nodiscard]] const ImageShape& shape() const { return out_; }

  /// into      [shape().pixels()]
  /// Errors    invalid, without the image's name: a shape that the transform does not fit
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
