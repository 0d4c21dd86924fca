#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/table.hpp"
#include "proto/checkpoint.pb.h"

namespace taut {

/// The newest version of the format that this release writes and reads; it reads all earlier ones.
inline constexpr std::uint32_t kCheckpointFormat = 2;
/// The version of a checkpoint whose files are whole and not shared, which older releases also
/// read.
inline constexpr std::uint32_t kPlainCheckpointFormat = 1;
/// The most bytes of a manifest's file.
inline constexpr std::uint64_t kMaxManifestBytes = 16ULL << 20U;
/// The manifest's name in its folder. A folder without one is not a complete checkpoint.
inline constexpr const char* kManifestName = "manifest.textproto";
/// The note of a shard's file that describes its slices: CheckpointSlices as text protobuf.
inline constexpr const char* kSlicesNote = "slices";

/// The contents of a manifest's file: text protobuf, and a last line with the SHA-256 of the text.
[[nodiscard]] std::string write_manifest(const pb::CheckpointManifest& manifest);

/// Reads it back. Every number in the result is within its limits, files' names are names within
/// the folder, tables are numbered in order.
/// name      of the file, for messages
/// Errors    invalid: damaged, not whole, of another format
[[nodiscard]] Result<pb::CheckpointManifest> parse_manifest(std::string_view bytes,
                                                            const std::string& name);

/// A manifest's tables. REQUIRES: parse_manifest() accepted it.
[[nodiscard]] std::vector<TableSpec> tables_of(const pb::CheckpointManifest& manifest);

/// Reads the note of a shard's file.
/// Errors    invalid: no such text; a slice of another table, beyond its end, or empty
[[nodiscard]] Result<pb::CheckpointSlices> parse_slices(std::string_view text,
                                                        const std::vector<TableSpec>& tables,
                                                        const std::string& name);

/// The tensors of a slice in a shard's file: of its values, and of their n-th state.
[[nodiscard]] std::string slice_tensor(const std::string& table, const pb::CheckpointSlice& slice);
[[nodiscard]] std::string state_tensor(const std::string& table, const pb::CheckpointSlice& slice,
                                       std::uint32_t state);
/// For a bucket of a table that is kept by rows: the tensors of the rows' numbers, and of the
/// clocks of their last updates.
[[nodiscard]] std::string row_numbers_tensor(const std::string& table,
                                             const pb::CheckpointSlice& slice);
[[nodiscard]] std::string row_clocks_tensor(const std::string& table,
                                            const pb::CheckpointSlice& slice);

/// The files of a server's shard, with slices, and of a worker, without.
inline constexpr const char* kWorkerFile = "worker";
[[nodiscard]] std::string shard_file_name(std::uint32_t shard);
/// Overload for an incremental checkpoint, whose files other checkpoints may share: with the slices
/// that have changed since the last one, and with those that have not and were written again.
[[nodiscard]] std::string shard_file_name(std::uint32_t shard, std::uint64_t order, bool changed);
/// A part of a coded file.
[[nodiscard]] std::string part_file_name(const std::string& file, std::size_t part);
[[nodiscard]] std::string worker_file_name(std::uint32_t slot);

}  // namespace taut
