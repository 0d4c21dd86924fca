#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace taut {

/// One part of a record: an image, a label, a sequence.
struct RecordField {
  std::vector<std::int64_t> shape;  // of one record; empty: a single number
  std::size_t batch_axis = 0;       // the axis of the records in a batch's blob: 1 of (T, N, ...)

  friend bool operator==(const RecordField&, const RecordField&) = default;
};

/// What one record of a data set holds, in the order of a data layer's tops.
using RecordShape = std::vector<RecordField>;

/// An image and its label: the blobs of a batch are (N, C, H, W) and (N).
inline RecordShape labelled_image(std::int64_t channels, std::int64_t height, std::int64_t width) {
  return {{.shape = {channels, height, width}}, {}};
}

/// Elements of a field of one record.
inline std::size_t element_count(const RecordField& field) {
  std::size_t product = 1;
  for (const std::int64_t extent : field.shape) product *= static_cast<std::size_t>(extent);
  return product;
}

}  // namespace taut
