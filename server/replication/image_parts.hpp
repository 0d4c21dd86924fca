#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "proto/slice_images.hpp"
#include "server/tables/row_store.hpp"

namespace taut::server {

/// The most bytes of a bucket's image: it is made at once, and a backup's connection is to hold it.
inline constexpr std::uint64_t kMaxBucketBytes = 48ULL << 20U;

/// What an image, or a part of one, takes on its way: its keys, values and states.
[[nodiscard]] std::uint64_t image_bytes(const ImageItem& image);
[[nodiscard]] std::uint64_t image_bytes(const std::vector<ImageItem>& parts);

/// An image of what has changed of a bucket's rows, in parts that each fit into a message.
/// head    of the image, without its rows
/// width   of a row
/// states  of a value
/// Throws std::bad_alloc.
[[nodiscard]] std::vector<ImageItem> in_parts(ImageItem head, const RowChanges& changes,
                                              std::size_t width, std::size_t states);

/// Whether the images of a table's buckets are not too large.
/// states  of a value
/// Errors    invalid: the number of buckets that it needs
[[nodiscard]] Result<void> check_bucket_bytes(const TableSpec& table, std::size_t states);

}  // namespace taut::server
