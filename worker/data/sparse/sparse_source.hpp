#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "common/files/gz_stream.hpp"
#include "common/result.hpp"
#include "proto/net.pb.h"
#include "worker/data/record_source.hpp"

namespace taut::data {

/// Opens the records of a SparseData layer; all are in memory, in compressed rows. A record's
/// fields are the numbers of its features, each as the bits of a std::uint32_t, their values, and
/// the label; unused places have the record's last number (0 if it has none) and value 0. If every
/// label of the file is -1 or 1, -1 becomes 0; any other labels are not changed.
/// limit     the maximum memory of the records
/// Errors    not_found, io; invalid: fields of the layer that are out of range, as read_records, a
///           record with more features than max_features or, for training, without any, a file
///           without records or beyond the limit
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> open_sparse(
    const pb::LayerParameter& layer, const std::filesystem::path& path, Part part,
    Bytes limit = in_memory_limit(Bytes(~0ULL)));

/// The records' shape, from the layer alone if it sets max_features, else from reading the file;
/// nullopt if the file does not exist or cannot be read.
[[nodiscard]] std::optional<RecordShape> peek_sparse(const pb::LayerParameter& layer,
                                                     const std::filesystem::path& path);

}  // namespace taut::data
