#include <fmt/format.h>

#include <utility>

#include "worker/data/images/image_store.hpp"
#include "worker/data/images/lmdb_file.hpp"
#include "worker/data/images/parse_datum.hpp"

namespace taut::data {
namespace {

class LmdbImages final : public ImageStore {
 public:
  LmdbImages(std::unique_ptr<LmdbReader> reader, std::string name, Colour colour)
      : reader_(std::move(reader)), name_(std::move(name)), colour_(colour) {}

  /// Errors: the first record cannot be read.
  Result<void> look() {
    TAUT_TRY(const StoredImage first, read(0));
    shape_ = first.shape;
    return ok();
  }

  std::uint64_t size() const override { return reader_->size(); }
  ImageShape shape() const override { return shape_; }
  Result<StoredImage> read(std::uint64_t index) const override {
    StoredImage image;
    TAUT_TRY(reader_->read(index, [&](LmdbBytes bytes) -> Result<void> {
      const std::string name =
          fmt::format("{}: record {} (key \"{}\")", name_, index, reader_->key(index));
      TAUT_TRY(image, parse_datum(bytes, name, colour_));
      return ok();
    }));
    return image;
  }

 private:
  const std::unique_ptr<LmdbReader> reader_;
  const std::string name_;
  const Colour colour_;
  ImageShape shape_;
};

}  // namespace

Result<std::unique_ptr<ImageStore>> open_lmdb(const std::filesystem::path& folder, Colour colour) {
  TAUT_TRY(auto reader, LmdbReader::open(folder));
  auto images = std::make_unique<LmdbImages>(std::move(reader), folder.string(), colour);
  TAUT_TRY(images->look());
  return std::unique_ptr<ImageStore>(std::move(images));
}

}  // namespace taut::data
