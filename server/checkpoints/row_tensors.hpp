#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "common/files/safetensors.hpp"
#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "proto/checkpoint.pb.h"
#include "proto/formats/checkpoint_reader.hpp"
#include "server/checkpoints/checkpoint_file.hpp"
#include "server/tables/row_store.hpp"

namespace taut::server {

/// The tensors of a bucket of a table that is kept by rows, in the order of append_rows().
/// slice  its entry in the file's note
[[nodiscard]] std::vector<safetensors::TensorSpec> row_tensors(const TableSpec& table,
                                                               const pb::CheckpointSlice& slice);

/// Writes a bucket's rows block by block; takes 24 bytes of memory per row in addition to the
/// image.
/// stop      ends it early, between two blocks
/// Errors    those of `out`; closed: it was stopped; invalid: values that are not finite
[[nodiscard]] Result<void> append_rows(const RowImage& image, const TableSpec& table,
                                       CheckpointOutput& out, const std::atomic<bool>& stop);

/// A bucket's rows as they were saved. They belong to the bucket, occur once each, and are in the
/// order in which they were written.
/// REQUIRES: the checkpoint is readable; the table is one of its tables, and is kept by rows.
/// Errors    invalid: rows that cannot be those of the bucket; io. Throws std::bad_alloc.
[[nodiscard]] Result<RowImage> read_rows(const CheckpointReader& saved, const TableSpec& table,
                                         std::uint32_t bucket);

}  // namespace taut::server
