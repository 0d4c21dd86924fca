#pragma once

#include <cstdint>
#include <filesystem>

#include "common/result.hpp"

namespace taut::data {

/// What a folder holds, by the names of its files.
enum class FolderKind : std::uint8_t { kOther, kIdx, kLmdb, kCifar10, kLevelDb };

/// Thread: any.
[[nodiscard]] FolderKind kind_of(const std::filesystem::path& folder);

/// The error for a LevelDB, which is not supported, with the remedy.
[[nodiscard]] Error no_leveldb(const std::filesystem::path& folder);

}  // namespace taut::data
