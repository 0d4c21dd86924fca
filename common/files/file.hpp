#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/types.hpp"

namespace taut {

/// A whole file as bytes. Errors: not found, unreadable, larger than `limit`.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path,
                                            Bytes limit = Bytes(1ULL << 30));

/// A whole file, decompressed if it is gzip.
/// Errors: as GzStream; larger than `limit`, or half of the available memory, once decompressed.
[[nodiscard]] Result<std::string> read_file_gz(const std::filesystem::path& path,
                                               Bytes limit = Bytes(4ULL << 30));

/// Writes a temporary file next to the target, flushes and renames it: a reader sees the old or the
/// new file.
[[nodiscard]] Result<void> write_file_atomically(const std::filesystem::path& path,
                                                 std::string_view bytes);

/// Resolves a path that a file mentions: relative to the working folder, then to the folder of
/// `mentioned_in` and each of its parents. Errors: not found, naming every path that was tried.
[[nodiscard]] Result<std::filesystem::path> find_mentioned(
    const std::filesystem::path& path, const std::filesystem::path& mentioned_in);

}  // namespace taut
