#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "proto/slice_images.hpp"
#include "server/tables/row_store.hpp"

namespace taut::server {

/// The most bytes of a bucket's image: it is made all at once, and a backup's connection must hold
/// it.
inline constexpr std::uint64_t kMaxBucketBytes = 48ULL << 20U;

/// The bytes that an image, or a part of one, takes in transit: its keys, values and states.
[[nodiscard]] std::uint64_t image_bytes(const ImageItem& image);
[[nodiscard]] std::uint64_t image_bytes(const std::vector<ImageItem>& parts);

/// Splits an image of a bucket's changed rows into parts that each fit into a message.
/// head    the image without its rows
/// width   values per row
/// states  per value
/// Throws std::bad_alloc.
[[nodiscard]] std::vector<ImageItem> in_parts(ImageItem head, const RowChanges& changes,
                                              std::size_t width, std::size_t states);

/// Checks that the images of a table's buckets are not too large.
/// states  per value
/// Errors    invalid: the number of buckets that it needs
[[nodiscard]] Result<void> check_bucket_bytes(const TableSpec& table, std::size_t states);

}  // namespace taut::server
