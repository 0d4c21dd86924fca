#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "common/result.hpp"

namespace taut::data {

/// What one record holds: an image of bytes, channel by channel, row by row.
struct ImageShape {
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  [[nodiscard]] std::size_t pixels() const {
    return static_cast<std::size_t>(channels * height * width);
  }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

/// Labelled images in memory. Thread: any; nothing changes after it was opened.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Records; at least one.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] virtual ImageShape shape() const = 0;
  /// REQUIRES: index < size().
  [[nodiscard]] virtual std::uint8_t label(std::uint64_t index) const = 0;
  /// shape().pixels() bytes. REQUIRES: index < size().
  [[nodiscard]] virtual std::span<const std::uint8_t> pixels(std::uint64_t index) const = 0;
  /// Errors: invalid, a label outside [0, classes); names the file, the record and the label.
  [[nodiscard]] virtual Result<void> check_labels(std::int64_t classes) const = 0;
};

/// Which of a data set's two parts.
enum class Part : std::uint8_t { kTrain, kTest };

/// Opens a data set whose files have their published names: train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, and t10k-... for the test part, each plain or with .gz.
/// Errors    not_found: says how to get the data; invalid: as parse_idx, or another number of
///           labels than of images
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_dataset(const std::filesystem::path& folder,
                                                            Part part);

/// The same from two IDX files.
[[nodiscard]] Result<std::unique_ptr<Dataset>> open_dataset(const std::filesystem::path& images,
                                                            const std::filesystem::path& labels);

}  // namespace taut::data
