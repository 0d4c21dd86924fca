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

/// An image as stored: channel by channel, row by row.
struct StoredImage {
  ImageShape shape;
  std::span<const std::uint8_t> pixels;  // shape.pixels() of them
  std::vector<float> floats;             // instead of bytes, if the store has floats
  std::vector<std::uint8_t> decoded;     // owns `pixels` if the store does not hold them
  std::int64_t label = 0;
};

/// How an image's colours are decoded.
enum class Colour : std::uint8_t { kAsStored, kColour, kGray };

/// Labelled images, in memory or in files. Thread: any; several at a time.
class ImageStore {
 public:
  ImageStore() = default;
  ImageStore(const ImageStore&) = delete;
  ImageStore& operator=(const ImageStore&) = delete;
  virtual ~ImageStore() = default;

  /// The number of images, at least 1.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// The shape of the first image; others may differ.
  [[nodiscard]] virtual ImageShape shape() const = 0;
  /// Reads an image; the result is valid for the lifetime of the store. REQUIRES: index < size().
  /// Errors    invalid or io: the image cannot be read; names it
  [[nodiscard]] virtual Result<StoredImage> read(std::uint64_t index) const = 0;
  /// As RecordSource::check_labels.
  [[nodiscard]] virtual Result<void> check_labels(const RecordSource::LabelRange& /*range*/) const {
    return ok();
  }
};

/// Opens a data set with files under their published names: train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, and t10k-... for the test part, each plain or with .gz.
/// Errors    not_found: says how to get the data; invalid: as parse_idx, or the numbers of labels
///           and images differ
[[nodiscard]] Result<std::unique_ptr<ImageStore>> open_idx_folder(
    const std::filesystem::path& folder, Part part);

/// As open_idx_folder(), from two IDX files.
[[nodiscard]] Result<std::unique_ptr<ImageStore>> open_idx_files(
    const std::filesystem::path& images, const std::filesystem::path& labels);

/// The shape of the images, from the files' heads alone. Errors: as open_idx_files.
[[nodiscard]] Result<ImageShape> peek_idx_folder(const std::filesystem::path& folder, Part part);
[[nodiscard]] Result<ImageShape> peek_idx_file(const std::filesystem::path& images);

/// Opens a folder with CIFAR-10's binary batches: data_batch_1.bin to data_batch_5.bin (those that
/// exist), or test_batch.bin. Each record is a one-byte label and 32 x 32 pixels of red, of green
/// and of blue.
/// Errors    not_found; invalid: a size that is not a multiple of 3,073 bytes, a label above 9
/// Source    Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009, the page
///           that publishes the data, "Binary version"
[[nodiscard]] Result<std::unique_ptr<ImageStore>> open_cifar10(const std::filesystem::path& folder,
                                                               Part part);

/// Opens a Caffe LMDB: a folder with data.mdb, whose values are serialized Datums in the order of
/// their keys. Encoded ones are decoded.
/// Errors    not_found; invalid: no LMDB, an empty one, a first record that cannot be read
[[nodiscard]] Result<std::unique_ptr<ImageStore>> open_lmdb(const std::filesystem::path& folder,
                                                            Colour colour);

struct ImageListOptions {
  std::filesystem::path root;  // relative paths are looked up from here; empty: the working folder
  std::int64_t height = 0;     // images are resized to height x width; 0: not resized
  std::int64_t width = 0;
  Colour colour = Colour::kColour;
};

/// Opens a list of images: a text file with one "path label" per line, or a folder with subfolders
/// which, in the order of their names, contain the images of class 0, 1, ...
/// Errors    not_found; invalid: an empty list, a line without a label (gives its number), a first
///           image that cannot be read
[[nodiscard]] Result<std::unique_ptr<ImageStore>> open_image_list(
    const std::filesystem::path& source, const ImageListOptions& options);

}  // namespace taut::data
