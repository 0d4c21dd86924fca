#include "worker/data/images/decode_image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace taut::data {
namespace {

constexpr std::array<std::uint8_t, 2> kJpegMagic{0xFF, 0xD8};
constexpr std::array<std::uint8_t, 8> kPngMagic{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

bool begins_with(std::span<const std::uint8_t> file, std::span<const std::uint8_t> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}

/// The source position of a resized side's pixel: between two source pixels.
struct Tap {
  std::size_t low = 0;
  std::size_t high = 0;
  float part = 0;  // weight of the higher one
};

std::vector<Tap> taps_of(std::int64_t from, std::int64_t to) {
  std::vector<Tap> taps(static_cast<std::size_t>(to));
  const double step = static_cast<double>(from) / static_cast<double>(to);
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const double place =
        std::clamp((static_cast<double>(i) + 0.5) * step - 0.5, 0.0, static_cast<double>(from - 1));
    taps[i].low = static_cast<std::size_t>(place);
    taps[i].high = std::min(taps[i].low + 1, static_cast<std::size_t>(from - 1));
    taps[i].part = static_cast<float>(place - std::floor(place));
  }
  return taps;
}

}  // namespace

Result<void> check_image_size(std::uint64_t height, std::uint64_t width, const std::string& name) {
  if (height > 0 && width > 0 && height <= kMaxImagePixels &&
      width <= static_cast<std::uint64_t>(kMaxImagePixels) / height) {
    return ok();
  }
  return invalid(fmt::format("{}: an image of {}x{} pixels; 1 to {} are read", name, height, width,
                             kMaxImagePixels));
}

Result<DecodedImage> decode_image(std::span<const std::uint8_t> file, const std::string& name,
                                  Colour colour) {
  if (begins_with(file, kJpegMagic)) return decode_jpeg(file, name, colour);
  if (begins_with(file, kPngMagic)) return decode_png(file, name, colour);
  return invalid(fmt::format("{}: {} bytes that are neither a JPEG nor a PNG", name, file.size()));
}

DecodedImage to_planes(std::span<const std::uint8_t> interleaved, const ImageShape& shape) {
  DecodedImage image{shape, std::vector<std::uint8_t>(shape.pixels())};
  const auto channels = static_cast<std::size_t>(shape.channels);
  const auto plane = static_cast<std::size_t>(shape.height * shape.width);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const std::uint8_t* from = interleaved.data() + (channels - 1 - channel);
    std::uint8_t* to = image.pixels.data() + channel * plane;
    for (std::size_t i = 0; i < plane; ++i) to[i] = from[i * channels];
  }
  return image;
}

DecodedImage resize(const DecodedImage& image, std::int64_t height, std::int64_t width) {
  if (height == image.shape.height && width == image.shape.width) return image;
  DecodedImage out{{image.shape.channels, height, width}, {}};
  out.pixels.resize(out.shape.pixels());
  const std::vector<Tap> rows = taps_of(image.shape.height, height);
  const std::vector<Tap> columns = taps_of(image.shape.width, width);
  const auto from_width = static_cast<std::size_t>(image.shape.width);
  const auto from_plane = static_cast<std::size_t>(image.shape.height) * from_width;
  std::uint8_t* to = out.pixels.data();
  for (std::int64_t channel = 0; channel < image.shape.channels; ++channel) {
    const std::uint8_t* plane =
        image.pixels.data() + static_cast<std::size_t>(channel) * from_plane;
    for (const Tap& row : rows) {
      const std::uint8_t* low = plane + row.low * from_width;
      const std::uint8_t* high = plane + row.high * from_width;
      for (const Tap& column : columns) {
        const auto blend = [&](const std::uint8_t* line) {
          const float left = line[column.low];
          return left + (static_cast<float>(line[column.high]) - left) * column.part;
        };
        const float above = blend(low);
        const float value = above + (blend(high) - above) * row.part;
        // Not lround(), which would change the bits of resized images.
        *to++ = static_cast<std::uint8_t>(value + 0.5F);  // NOLINT(bugprone-incorrect-roundings)
      }
    }
  }
  return out;
}

}  // namespace taut::data
