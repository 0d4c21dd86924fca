#include <fmt/format.h>

#include <array>
#include <string>
#include <system_error>
#include <utility>

#include "common/files/file.hpp"
#include "worker/data/images/image_store.hpp"
#include "worker/data/images/parse_cifar10.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

constexpr ImageShape kShape{3, 32, 32};
constexpr Bytes kMaxFile{1ULL << 30};

struct Batch {
  std::string name;
  std::string bytes;
};

class Cifar10 final : public ImageStore {
 public:
  Cifar10(std::vector<Batch> batches, std::uint64_t size)
      : batches_(std::move(batches)), size_(size) {}

  std::uint64_t size() const override { return size_; }
  ImageShape shape() const override { return kShape; }

  Result<StoredImage> read(std::uint64_t index) const override {
    const auto* record = reinterpret_cast<const std::uint8_t*>(record_at(index));
    StoredImage image;
    image.shape = kShape;
    image.label = record[0];
    image.pixels = {record + 1, kShape.pixels()};
    return image;
  }

  Result<void> check_labels(const RecordSource::LabelRange& range) const override {
    for (const Batch& batch : batches_) {
      const std::uint64_t records = batch.bytes.size() / kCifar10RecordBytes;
      for (std::uint64_t i = 0; i < records; ++i) {
        const auto label = static_cast<unsigned char>(batch.bytes[i * kCifar10RecordBytes]);
        TAUT_TRY(check_label(batch.name, i, label, range));
      }
    }
    return ok();
  }

 private:
  [[nodiscard]] const char* record_at(std::uint64_t index) const {
    std::size_t batch = 0;
    while (index >= batches_[batch].bytes.size() / kCifar10RecordBytes) {
      index -= batches_[batch].bytes.size() / kCifar10RecordBytes;
      ++batch;
    }
    return batches_[batch].bytes.data() + index * kCifar10RecordBytes;
  }

  std::vector<Batch> batches_;
  std::uint64_t size_;
};

}  // namespace

Result<std::uint64_t> parse_cifar10(const std::string& bytes, const std::string& name) {
  if (bytes.empty() || bytes.size() % kCifar10RecordBytes != 0) {
    return invalid(fmt::format("{}: {} bytes are not a whole number of CIFAR-10's records of {}",
                               name, bytes.size(), kCifar10RecordBytes));
  }
  const std::uint64_t records = bytes.size() / kCifar10RecordBytes;
  for (std::uint64_t i = 0; i < records; ++i) {
    const auto label = static_cast<unsigned char>(bytes[i * kCifar10RecordBytes]);
    if (label < 10) continue;
    return invalid(
        fmt::format("{}: record {} has label {}; CIFAR-10 has 0 to 9: is this its "
                    "binary version?",
                    name, i, label));
  }
  return records;
}

Result<std::unique_ptr<ImageStore>> open_cifar10(const fs::path& folder, Part part) {
  std::vector<fs::path> paths;
  std::error_code ignored;
  if (part == Part::kTest) {
    paths.push_back(folder / "test_batch.bin");
  } else {
    for (int i = 1; i <= 5; ++i) {
      fs::path path = folder / fmt::format("data_batch_{}.bin", i);
      if (fs::exists(path, ignored)) paths.push_back(std::move(path));
    }
  }
  if (paths.empty() || !fs::exists(paths[0], ignored)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: no CIFAR-10 {} batches; scripts/get_data cifar10 fetches "
                                  "them",
                                  folder.string(), part == Part::kTest ? "test" : "training"));
  }
  std::vector<Batch> batches;
  std::uint64_t size = 0;
  for (const fs::path& path : paths) {
    TAUT_TRY(std::string bytes, read_file(path, kMaxFile));
    TAUT_TRY(const std::uint64_t records, parse_cifar10(bytes, path.string()));
    size += records;
    batches.push_back({path.string(), std::move(bytes)});
  }
  return std::unique_ptr<ImageStore>(std::make_unique<Cifar10>(std::move(batches), size));
}

}  // namespace taut::data
