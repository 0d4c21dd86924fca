#include "worker/data/convert_images.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/file.hpp"
#include "common/log.hpp"
#include "proto/caffe_data.pb.h"
#include "worker/data/images/folder_kind.hpp"
#include "worker/data/images/lmdb_file.hpp"
#include "worker/data/transform.hpp"

namespace taut::data {
namespace {

namespace fs = std::filesystem;

std::string to_datum(const StoredImage& image) {
  caffe::Datum datum;
  datum.set_channels(static_cast<int>(image.shape.channels));
  datum.set_height(static_cast<int>(image.shape.height));
  datum.set_width(static_cast<int>(image.shape.width));
  datum.set_label(static_cast<int>(image.label));
  if (image.floats.empty()) {
    datum.set_data(image.pixels.data(), image.pixels.size());
  } else {
    datum.mutable_float_data()->Assign(image.floats.begin(), image.floats.end());
  }
  return datum.SerializeAsString();
}

/// The sum of images of one shape.
class MeanSum {
 public:
  /// Errors: invalid, a shape that differs from the earlier images'.
  Result<void> add(const StoredImage& image, std::uint64_t index) {
    if (count_ == 0) {
      shape_ = image.shape;
      sums_.assign(shape_.pixels(), 0.0);
    } else if (!(image.shape == shape_)) {
      return invalid(
          fmt::format("record {} is of {}x{}x{}, and those before of {}x{}x{}: a mean "
                      "needs images of one size; resize them",
                      index, image.shape.channels, image.shape.height, image.shape.width,
                      shape_.channels, shape_.height, shape_.width));
    }
    const bool bytes = image.floats.empty();
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sums_[i] += bytes ? static_cast<double>(image.pixels[i]) : double{image.floats[i]};
    }
    ++count_;
    return ok();
  }
  [[nodiscard]] MeanImage mean() const {
    MeanImage mean{shape_, {}};
    for (const double sum : sums_) {
      mean.values.push_back(static_cast<float>(sum / static_cast<double>(count_)));
    }
    return mean;
  }

 private:
  ImageShape shape_;
  std::vector<double> sums_;
  std::uint64_t count_ = 0;
};

}  // namespace

Result<std::unique_ptr<ImageStore>> open_images(const fs::path& source, Part part,
                                                const ImageListOptions& options) {
  switch (kind_of(source)) {
    case FolderKind::kLmdb:
      return open_lmdb(source, Colour::kAsStored);
    case FolderKind::kCifar10:
      return open_cifar10(source, part);
    case FolderKind::kIdx:
      return open_idx_folder(source, part);
    case FolderKind::kLevelDb:
      return no_leveldb(source);
    case FolderKind::kOther:
      break;
  }
  return open_image_list(source, options);
}

Result<Converted> convert(const ImageStore& store, const ConvertOptions& options) {
  std::unique_ptr<LmdbWriter> writer;
  if (!options.lmdb.empty()) {
    TAUT_TRY(writer, LmdbWriter::create(options.lmdb));
  }
  Converted done;
  done.shape = store.shape();
  MeanSum sum;
  for (std::uint64_t i = 0; i < store.size(); ++i) {
    const auto image = store.read(i);
    if (!image) {
      if (!options.skip_corrupt) return image.error();
      log::warn("skipped: {}", image.error().message);
      ++done.skipped;
      continue;
    }
    if (writer) {
      TAUT_TRY(writer->add(lmdb_key(done.images, store.size()), to_datum(image.value())));
    }
    if (!options.mean.empty()) {
      TAUT_TRY(sum.add(image.value(), i));
    }
    ++done.images;
  }
  if (done.images == 0) return invalid("not one image could be read");
  if (writer) {
    TAUT_TRY(writer->finish());
  }
  if (!options.mean.empty()) {
    TAUT_TRY(write_file_atomically(options.mean, to_mean_file(sum.mean())));
  }
  return done;
}

}  // namespace taut::data
