#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>

#include "worker/data/images/idx.hpp"
#include "worker/data/images/image_store.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

class IdxImages final : public ImageStore {
 public:
  IdxImages(Idx images, Idx labels, std::string labels_name)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        labels_name_(std::move(labels_name)),
        shape_{1, static_cast<std::int64_t>(images_.extents[1]),
               static_cast<std::int64_t>(images_.extents[2])} {}

  std::uint64_t size() const override { return images_.extents[0]; }
  ImageShape shape() const override { return shape_; }

  Result<StoredImage> read(std::uint64_t index) const override {
    StoredImage image;
    image.shape = shape_;
    image.pixels = images_.elements().subspan(index * shape_.pixels(), shape_.pixels());
    image.label = labels_.elements()[index];
    return image;
  }

  Result<void> check_labels(const RecordSource::LabelRange& range) const override {
    for (std::uint64_t i = 0; i < size(); ++i) {
      TAUT_TRY(check_label(labels_name_, i, labels_.elements()[i], range));
    }
    return ok();
  }

 private:
  Idx images_;
  Idx labels_;
  std::string labels_name_;
  ImageShape shape_;
};

Error missing(const fs::path& path) {
  return make_error(
      ErrorCode::kNotFound,
      fmt::format(
          "{}: no such data; for Fashion-MNIST run `apt install dataset-fashion-mnist`, for "
          "other sets scripts/get_data",
          path.string()));
}

/// The plain file if it exists, else the gzip one.
Result<fs::path> find_published(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const char* suffix : {"", ".gz"}) {
    fs::path path = folder / (name + suffix);
    if (fs::exists(path, ignored)) return path;
  }
  return missing(folder / (name + "[.gz]"));
}

std::string prefix_of(Part part) {
  return part == Part::kTrain ? "train" : "t10k";
}

ImageShape shape_of(const std::vector<std::uint64_t>& extents) {
  return {1, static_cast<std::int64_t>(extents[1]), static_cast<std::int64_t>(extents[2])};
}

}  // namespace

Result<ImageShape> peek_idx_file(const fs::path& images) {
  TAUT_TRY(const auto extents, read_idx_extents(images, 3));
  return shape_of(extents);
}

Result<ImageShape> peek_idx_folder(const fs::path& folder, Part part) {
  TAUT_TRY(const fs::path images, find_published(folder, prefix_of(part) + "-images-idx3-ubyte"));
  return peek_idx_file(images);
}

Result<std::unique_ptr<ImageStore>> open_idx_folder(const fs::path& folder, Part part) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return missing(folder);
  const std::string prefix = prefix_of(part);
  TAUT_TRY(const fs::path images, find_published(folder, prefix + "-images-idx3-ubyte"));
  TAUT_TRY(const fs::path labels, find_published(folder, prefix + "-labels-idx1-ubyte"));
  return open_idx_files(images, labels);
}

Result<std::unique_ptr<ImageStore>> open_idx_files(const fs::path& images, const fs::path& labels) {
  std::error_code ignored;
  for (const fs::path& path : {images, labels}) {
    if (!fs::exists(path, ignored)) return missing(path);
  }
  TAUT_TRY(Idx label_idx, read_idx(labels, 1));
  TAUT_TRY(Idx image_idx, read_idx(images, 3));
  if (image_idx.extents[0] != label_idx.extents[0]) {
    return invalid(fmt::format("{} holds {} images, and {} holds {} labels", images.string(),
                               image_idx.extents[0], labels.string(), label_idx.extents[0]));
  }
  return std::unique_ptr<ImageStore>(
      std::make_unique<IdxImages>(std::move(image_idx), std::move(label_idx), labels.string()));
}

}  // namespace taut::data
