#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "common/result.hpp"
#include "worker/data/record_source.hpp"

namespace taut::data {

struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  [[nodiscard]] std::size_t pixels() const {
    return static_cast<std::size_t>(channels * height * width);
  }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// An image as its store holds it: channel by channel, row by row.
struct StoredImage {
  ImageShape shape;
  std::span<const std::uint8_t> pixels;  // shape.pixels() of them
  std::vector<std::uint8_t> decoded;     // behind `pixels` where the store holds no such bytes
  std::int64_t label = 0;
};

/// Labelled images of bytes, in memory or in files. Thread: any; several at a time.
class ImageStore {
 public:
  ImageStore() = default;
  ImageStore(const ImageStore&) = delete;
  ImageStore& operator=(const ImageStore&) = delete;
  virtual ~ImageStore() = default;

  /// Images; at least one.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Of the first image; others may differ.
  [[nodiscard]] virtual ImageShape shape() const = 0;
  /// What it gives is valid as long as the store. REQUIRES: index < size().
  /// Errors    invalid or io: the image cannot be read; names it
  [[nodiscard]] virtual Result<StoredImage> read(std::uint64_t index) const = 0;
  /// As RecordSource::check_labels.
  [[nodiscard]] virtual Result<void> check_labels(const RecordSource::LabelRange& /*range*/) const {
    return ok();
  }
};

/// Opens a data set whose files have their published names: train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, and t10k-... for the test part, each plain or with .gz.
/// Errors    not_found: says how to get the data; invalid: as parse_idx, or another number of
///           labels than of images
[[nodiscard]] Result<std::unique_ptr<ImageStore>> open_idx_folder(
    const std::filesystem::path& folder, Part part);

/// The same from two IDX files.
[[nodiscard]] Result<std::unique_ptr<ImageStore>> open_idx_files(
    const std::filesystem::path& images, const std::filesystem::path& labels);

/// The shape of the images, from the files' heads alone. Errors: as open_idx_files.
[[nodiscard]] Result<ImageShape> peek_idx_folder(const std::filesystem::path& folder, Part part);
[[nodiscard]] Result<ImageShape> peek_idx_file(const std::filesystem::path& images);

}  // namespace taut::data
