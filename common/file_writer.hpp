#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "common/result.hpp"

namespace taut {

/// A file that is written in pieces and appears whole or not at all: its bytes go to NAME.partPID,
/// which `commit` flushes and renames. Dropped without `commit`, nothing is left of it.
/// Thread    one at a time; write_at from several at once is allowed
class FileWriter {
 public:
  enum class Durability : std::uint8_t {
    kFlushed,     // commit returns when file and folder are on the disk
    kNotFlushed,  // what a crash of the machine leaves is open
  };

  [[nodiscard]] static Result<FileWriter> create(const std::filesystem::path& path,
                                                 Durability durability = Durability::kFlushed);
  ~FileWriter();
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;

  /// Errors: io, with the file and what the system said.
  [[nodiscard]] Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// From now on whole pages go to the disk past the page cache, where the file system can: memory, offset
  /// and size of each piece are multiples of kPageBytes, and pieces come one at a time. The first other
  /// piece ends it, and goes the usual way as all that follow.
  /// bytes     how long the file is once it is committed: room for it is asked for at once
  void go_past_cache(std::uint64_t bytes);
  static constexpr std::size_t kPageBytes = 4096;

  /// Puts the file in its place; nothing is written afterwards.
  [[nodiscard]] Result<void> commit();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  FileWriter(std::filesystem::path path, std::string beside, int file, Durability durability);
  [[nodiscard]] Error failed(const char* step) const;
  void drop() noexcept;
  /// Whether the piece goes past the cache.
  [[nodiscard]] bool passes_cache(std::uint64_t offset, std::span<const std::byte> bytes);
  void end_past_cache();

  std::filesystem::path path_;
  std::string beside_;
  int file_ = -1;
  Durability durability_ = Durability::kFlushed;
  bool past_cache_ = false;
};

/// Flushes what a folder lists to the disk: renames and new files in it outlive a crash.
[[nodiscard]] Result<void> flush_folder(const std::filesystem::path& folder);

}  // namespace taut
