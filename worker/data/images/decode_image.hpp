#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/data/images/image_store.hpp"

namespace taut::data {

/// Channel by channel, row by row; three channels are blue, green, red, as in Caffe.
struct DecodedImage {
  ImageShape shape;
  std::vector<std::uint8_t> pixels;
};

/// Larger images are refused before memory is allocated for them.
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

/// Decodes a JPEG or a PNG, distinguished by their first bytes.
/// name      of the image, for messages
/// Errors    invalid: neither of the two, damaged, truncated, or more than kMaxImagePixels pixels
[[nodiscard]] Result<DecodedImage> decode_image(std::span<const std::uint8_t> file,
                                                const std::string& name, Colour colour);

/// Decoders of one format each. REQUIRES: a colour other than kAsStored is not changed.
[[nodiscard]] Result<DecodedImage> decode_jpeg(std::span<const std::uint8_t> file,
                                               const std::string& name, Colour colour);
[[nodiscard]] Result<DecodedImage> decode_png(std::span<const std::uint8_t> file,
                                              const std::string& name, Colour colour);

/// Errors: invalid, a side of 0 or more than kMaxImagePixels pixels in all.
[[nodiscard]] Result<void> check_image_size(std::uint64_t height, std::uint64_t width,
                                            const std::string& name);

/// Rows of interleaved red, green, blue (or gray) to planes of blue, green, red (or gray).
/// interleaved  [height * width * channels]
[[nodiscard]] DecodedImage to_planes(std::span<const std::uint8_t> interleaved,
                                     const ImageShape& shape);

/// Resizes with bilinear interpolation, pixel centres at half-integers, edges repeated.
/// Source    the grid of OpenCV's INTER_LINEAR, which Caffe's tools use
[[nodiscard]] DecodedImage resize(const DecodedImage& image, std::int64_t height,
                                  std::int64_t width);

}  // namespace taut::data
