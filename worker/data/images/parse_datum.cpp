#include "worker/data/images/parse_datum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/caffe_data.pb.h"
#include "worker/data/images/decode_image.hpp"

namespace taut::data {
namespace {

constexpr std::size_t kMaxDatum = std::size_t{1} << 30;

Result<void> check_extents(const caffe::Datum& datum, const std::string& name) {
  if (datum.channels() >= 1 && datum.channels() <= 65536) {
    return check_image_size(static_cast<std::uint64_t>(std::max(datum.height(), 0)),
                            static_cast<std::uint64_t>(std::max(datum.width(), 0)), name);
  }
  return invalid(fmt::format("{}: a Datum of {} channels", name, datum.channels()));
}

Error another_size(const ImageShape& shape, std::size_t held, const std::string& name) {
  return invalid(fmt::format("{}: a Datum of {}x{}x{} needs {} numbers, and holds {}", name,
                             shape.channels, shape.height, shape.width, shape.pixels(), held));
}

}  // namespace

Result<StoredImage> parse_datum(std::span<const std::uint8_t> bytes, const std::string& name,
                                Colour colour) {
  caffe::Datum datum;
  if (bytes.size() > kMaxDatum ||
      !datum.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid(fmt::format("{}: {} bytes that are not a Datum", name, bytes.size()));
  }
  StoredImage image;
  image.label = datum.label();
  const std::string& data = datum.data();
  if (datum.encoded()) {
    const std::span file(reinterpret_cast<const std::uint8_t*>(data.data()), data.size());
    TAUT_TRY(DecodedImage decoded, decode_image(file, name, colour));
    image.shape = decoded.shape;
    image.decoded = std::move(decoded.pixels);
    image.pixels = image.decoded;
    return image;
  }
  TAUT_TRY(check_extents(datum, name));
  image.shape = {datum.channels(), datum.height(), datum.width()};
  const auto floats = static_cast<std::size_t>(datum.float_data_size());
  if (floats > 0) {
    if (!data.empty()) {
      return invalid(fmt::format("{}: a Datum with bytes and floats at once", name));
    }
    if (floats != image.shape.pixels()) return another_size(image.shape, floats, name);
    image.floats.assign(datum.float_data().begin(), datum.float_data().end());
    return image;
  }
  if (data.size() != image.shape.pixels()) return another_size(image.shape, data.size(), name);
  image.decoded.assign(data.begin(), data.end());
  image.pixels = image.decoded;
  return image;
}

}  // namespace taut::data
