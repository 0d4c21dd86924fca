#include "cli/record_shape.hpp"

#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <system_error>

#include "worker/model/job_data.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

fs::path images_of(const model::DataPlace& place) {
  if (!place.images.empty()) return place.images;
  const fs::path plain = fs::path(place.folder) / "train-images-idx3-ubyte";
  std::error_code ignored;
  return fs::exists(plain, ignored) ? plain : fs::path(plain.string() + ".gz");
}

}  // namespace

// The head is the magic number 0x00000803 (bytes, three extents), then images, rows and columns,
// each 32 bits, big-endian. Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database".
std::optional<model::RecordShape> record_shape_of(const pb::Job& job) {
  const auto place = model::data_of(job, pb::TRAIN);
  if (!place) return std::nullopt;
  std::array<unsigned char, 16> head{};
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(
      gzopen(images_of(place.value()).c_str(), "rb"), gzclose);
  if (!file || gzread(file.get(), head.data(), head.size()) != static_cast<int>(head.size())) {
    return std::nullopt;
  }
  const auto word = [&](std::size_t at) {
    std::int64_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) value = value * 256 + head[i];
    return value;
  };
  constexpr std::int64_t kImagesMagic = 0x0803;
  if (word(0) != kImagesMagic) return std::nullopt;
  return model::RecordShape{.channels = 1, .height = word(8), .width = word(12)};
}

}  // namespace taut::cli
