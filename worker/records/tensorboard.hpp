#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proto/tensorboard.pb.h"

namespace taut::worker {

/// One record of a TFRecord file: length (8 bytes, little-endian), masked CRC-32C of these, the
/// bytes, masked CRC-32C of the bytes.
/// Source    tensorflow/core/lib/io/record_writer.h
[[nodiscard]] std::string tf_record(std::string_view bytes);

/// CRC-32C, rotated right by 15 and shifted by a constant, so that a checksum of data that contains
/// checksums remains meaningful.
/// Source    tensorflow/core/lib/hash/crc32c.h
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes);

/// The histogram of an array, in equal buckets between its finite extremes. Values that are not
/// finite are omitted.
[[nodiscard]] pb::TensorBoardHistogram histogram_of(std::span<const float> values);

/// The first record of a file.
[[nodiscard]] std::string tensorboard_head(double unix_time_s);

}  // namespace taut::worker
