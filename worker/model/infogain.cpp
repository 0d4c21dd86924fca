#include "worker/model/infogain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "common/files/file.hpp"
#include "proto/caffe_data.pb.h"

namespace taut::model {

Result<std::vector<float>> read_infogain(const std::filesystem::path& path, std::int64_t classes) {
  TAUT_TRY(const std::string bytes, read_file(path));
  const auto wrong = [&](const std::string& what) {
    return invalid(fmt::format("{}: {}", path.string(), what));
  };
  caffe::MeanBlob blob;  // a BlobProto
  if (!blob.ParseFromString(bytes)) return wrong("is not a BlobProto (binaryproto)");
  std::vector<float> values(blob.data().begin(), blob.data().end());
  for (const double value : blob.double_data()) values.push_back(static_cast<float>(value));
  if (values.size() != static_cast<std::uint64_t>(classes) * static_cast<std::uint64_t>(classes)) {
    return wrong(fmt::format("has {} numbers, but {} classes need {} x {}", values.size(), classes,
                             classes, classes));
  }
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return values;
  return wrong(fmt::format("number {} is {}: all must be finite", bad - values.begin(), *bad));
}

}  // namespace taut::model
