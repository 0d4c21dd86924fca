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
/// fields are the numbers of its features, as the bits of a std::uint32_t each, their values, and
/// the label; unused places have the record's last number, or 0 without one, and value 0. Where
/// each label of the file is -1 or 1, -1 becomes 0; any other labels stay as they are.
/// limit     of the memory that the records may take
/// Errors    not_found, io; invalid: fields of the layer that cannot be, as read_records, a record
///           with more features than max_features or, for training, without any, a file without a
///           record or beyond the limit
[[nodiscard]] Result<std::shared_ptr<const RecordSource>> open_sparse(
    const pb::LayerParameter& layer, const std::filesystem::path& path, Part part,
    Bytes limit = in_memory_limit(Bytes(~0ULL)));

/// What the records hold, from the layer alone if it says max_features, else after reading the
/// file; nothing if that does not exist or cannot be read.
[[nodiscard]] std::optional<RecordShape> peek_sparse(const pb::LayerParameter& layer,
                                                     const std::filesystem::path& path);

}  // namespace taut::data
