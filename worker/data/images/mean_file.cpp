#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "common/files/file.hpp"
#include "proto/caffe_data.pb.h"
#include "worker/data/transform.hpp"

namespace taut::data {
namespace {

constexpr Bytes kMaxFile{1ULL << 30};
constexpr std::int64_t kMaxExtent = 1 << 20;

/// Extents of both of Caffe's spellings: shape { dim ... }, or num, channels, height, width.
std::vector<std::int64_t> extents_of(const caffe::MeanBlob& blob) {
  if (blob.has_shape()) return {blob.shape().dim().begin(), blob.shape().dim().end()};
  return {blob.num(), blob.channels(), blob.height(), blob.width()};
}

}  // namespace

Result<MeanImage> parse_mean(const std::string& bytes, const std::string& name) {
  caffe::MeanBlob blob;
  if (!blob.ParseFromString(bytes)) {
    return invalid(fmt::format("{}: {} bytes that are not a mean file", name, bytes.size()));
  }
  std::vector<std::int64_t> extents = extents_of(blob);
  if (extents.size() == 4 && extents[0] == 1) extents.erase(extents.begin());
  const bool sound =
      extents.size() == 3 && std::all_of(extents.begin(), extents.end(), [](std::int64_t extent) {
        return extent >= 1 && extent <= kMaxExtent;
      });
  if (!sound) {
    return invalid(
        fmt::format("{}: a mean of extents {}; 1 x channels x height x width is required", name,
                    fmt::join(extents_of(blob), "x")));
  }
  MeanImage mean{{extents[0], extents[1], extents[2]}, {blob.data().begin(), blob.data().end()}};
  if (blob.data_size() == 0) {
    for (const double value : blob.double_data()) mean.values.push_back(static_cast<float>(value));
  }
  if (mean.values.size() != mean.shape.pixels()) {
    return invalid(fmt::format("{}: a mean of {}x{}x{} needs {} numbers, and holds {}", name,
                               extents[0], extents[1], extents[2], mean.shape.pixels(),
                               mean.values.size()));
  }
  const bool finite = std::all_of(mean.values.begin(), mean.values.end(),
                                  [](float value) { return std::isfinite(value); });
  if (!finite) return invalid(fmt::format("{}: holds a mean that is not finite", name));
  return mean;
}

Result<MeanImage> read_mean(const std::filesystem::path& path) {
  TAUT_TRY(const std::string bytes, read_file(path, kMaxFile));
  return parse_mean(bytes, path.string());
}

std::string to_mean_file(const MeanImage& mean) {
  caffe::MeanBlob blob;
  blob.set_num(1);
  blob.set_channels(static_cast<int>(mean.shape.channels));
  blob.set_height(static_cast<int>(mean.shape.height));
  blob.set_width(static_cast<int>(mean.shape.width));
  for (const float value : mean.values) blob.add_data(value);
  return blob.SerializeAsString();
}

}  // namespace taut::data
