#include "worker/data/dataset.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>

#include "worker/data/idx.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

class IdxDataset final : public Dataset {
 public:
  IdxDataset(Idx images, Idx labels, std::string labels_name)
      : images_(std::move(images)),
        labels_(std::move(labels)),
        labels_name_(std::move(labels_name)),
        shape_{1, static_cast<std::int64_t>(images_.extents[1]),
               static_cast<std::int64_t>(images_.extents[2])} {}

  std::uint64_t size() const override { return images_.extents[0]; }
  ImageShape shape() const override { return shape_; }
  std::uint8_t label(std::uint64_t index) const override { return labels_.elements()[index]; }
  std::span<const std::uint8_t> pixels(std::uint64_t index) const override {
    return images_.elements().subspan(index * shape_.pixels(), shape_.pixels());
  }

  Result<void> check_labels(std::int64_t classes) const override {
    for (std::uint64_t i = 0; i < size(); ++i) {
      if (label(i) >= classes) {
        return invalid(
            fmt::format("{}: record {} has label {}; the net tells {} classes apart (0 to "
                        "{})",
                        labels_name_, i, label(i), classes, classes - 1));
      }
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

/// The plain file where there is one, else the gzip one.
Result<fs::path> find_published(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  for (const char* suffix : {"", ".gz"}) {
    fs::path path = folder / (name + suffix);
    if (fs::exists(path, ignored)) return path;
  }
  return missing(folder / (name + "[.gz]"));
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_dataset(const fs::path& folder, Part part) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return missing(folder);
  const std::string prefix = part == Part::kTrain ? "train" : "t10k";
  TAUT_TRY(const fs::path images, find_published(folder, prefix + "-images-idx3-ubyte"));
  TAUT_TRY(const fs::path labels, find_published(folder, prefix + "-labels-idx1-ubyte"));
  return open_dataset(images, labels);
}

Result<std::unique_ptr<Dataset>> open_dataset(const fs::path& images, const fs::path& labels) {
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
  return std::unique_ptr<Dataset>(
      std::make_unique<IdxDataset>(std::move(image_idx), std::move(label_idx), labels.string()));
}

}  // namespace taut::data
