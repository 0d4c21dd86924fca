#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "common/result.hpp"

namespace taut {

/// A file that is written in pieces and appears whole or not at all: its bytes go to NAME.partPID,
/// which `commit` flushes and renames. Without `commit`, the destructor removes it.
/// Thread    one at a time; write_at from several at once is allowed
class FileWriter {
 public:
  enum class Durability : std::uint8_t {
    kFlushed,     // commit returns when file and folder are on the disk
    kNotFlushed,  // a crash of the machine may lose it
  };

  [[nodiscard]] static Result<FileWriter> create(const std::filesystem::path& path,
                                                 Durability durability = Durability::kFlushed);
  ~FileWriter();
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&& other) noexcept;

  /// Errors: io, with the file and the system's error.
  [[nodiscard]] Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  /// From now on pieces bypass the page cache if the file system supports it. REQUIRES: pieces are
  /// written sequentially. The first piece whose memory, offset or size is not a multiple of
  /// kPageBytes ends this mode: it and all later pieces are written as usual.
  /// bytes     the final length of the file; its space is allocated at once
  void bypass_page_cache(std::uint64_t bytes);
  static constexpr std::size_t kPageBytes = 4096;

  /// Moves the file to its path; no write may follow.
  [[nodiscard]] Result<void> commit();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  FileWriter(std::filesystem::path path, std::string partial, int file, Durability durability);
  [[nodiscard]] Error failed(const char* step) const;
  void drop() noexcept;
  /// Whether the piece bypasses the cache.
  [[nodiscard]] bool passes_cache(std::uint64_t offset, std::span<const std::byte> bytes);
  void end_past_cache();

  std::filesystem::path path_;
  std::string partial_;
  int file_ = -1;
  Durability durability_ = Durability::kFlushed;
  bool past_cache_ = false;
};

/// Flushes a folder's entries to the disk, so that renames and new files in it survive a crash.
[[nodiscard]] Result<void> flush_folder(const std::filesystem::path& folder);

}  // namespace taut
