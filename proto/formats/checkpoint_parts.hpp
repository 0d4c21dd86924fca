#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/coding/striping.hpp"
#include "common/files/random_read.hpp"
#include "common/files/tensor_file.hpp"
#include "common/result.hpp"
#include "proto/checkpoint.pb.h"

namespace taut {

/// Finds a part whose bytes have the SHA-256 that the manifest states.
/// name    the part's file
/// sha256  64 hex digits
/// Returns nullptr if it is missing or damaged.
using FindPart = std::function<std::shared_ptr<const RandomRead>(
    const std::string& name, std::uint64_t bytes, const std::string& sha256)>;

/// How a file of a coded checkpoint is divided.
[[nodiscard]] Striping striping_of(const pb::CheckpointCoding& coding, std::uint64_t file_bytes);

/// A file of a coded checkpoint, from those of its parts that are found.
/// path    for messages
/// Errors  unavailable: too few parts, with the holders of the missing ones
[[nodiscard]] Result<TensorFile> open_coded_file(const std::filesystem::path& path,
                                                 const pb::CheckpointCoding& coding,
                                                 const pb::CheckpointFile& file,
                                                 const FindPart& find);

/// The name of the folder in which a server keeps its parts if its configuration names none; it is
/// in the folder of the job's checkpoints.
[[nodiscard]] std::string disk_folder_name(const std::string& server);

/// The folders on this machine that may have a checkpoint's parts, the checkpoint's own first:
/// those of the same name in every server's folder next to it.
[[nodiscard]] std::vector<std::filesystem::path> part_folders(const std::filesystem::path& folder);

/// Finds a checkpoint's parts in its part_folders().
[[nodiscard]] FindPart find_parts_here(const std::filesystem::path& folder);

}  // namespace taut
