#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "common/bounded_queue.hpp"
#include "common/files/file_writer.hpp"
#include "common/result.hpp"

namespace taut {

/// A large file that is written sequentially and appears complete or not at all. Appended bytes are
/// collected in blocks, which a dedicated thread writes to the disk, bypassing the page cache:
/// the caller fills the next block in the meantime, and the disk is never idle.
/// Thread    one at a time
class FileStream {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{8} << 20U;

  /// bytes     how many will be appended before commit()
  /// Errors    io. Throws std::bad_alloc.
  [[nodiscard]] static Result<std::unique_ptr<FileStream>> create(const std::filesystem::path& path,
                                                                  std::uint64_t bytes);
  /// Deletes the file if it was not committed.
  ~FileStream();
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;

  /// Copies the bytes; waits while all blocks are pending.
  /// Errors    io: names the file and the system's error, possibly of an earlier piece
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);

  /// Returns when the whole file is on the disk under its name; no append may follow.
  [[nodiscard]] Result<void> commit();

 private:
  struct FreeBlock {
    void operator()(std::byte* memory) const noexcept;
  };
  struct Block {
    std::unique_ptr<std::byte, FreeBlock> memory;
    std::size_t size = 0;
  };

  FileStream(FileWriter file, std::uint64_t bytes);
  void run();
  [[nodiscard]] Result<void> write(const Block& block);
  void send();
  [[nodiscard]] Result<void> failure() const;

  static constexpr std::size_t kBlocks = 3;  // one being filled, one being written, one pending

  FileWriter file_;
  const std::uint64_t bytes_;
  std::uint64_t written_ = 0;  // by the thread
  std::optional<Block> filling_;
  BoundedQueue<Block> full_{kBlocks};
  BoundedQueue<Block> empty_{kBlocks};
  std::optional<Error> error_;  // of the thread; read once failed_ is set
  std::atomic<bool> failed_ = false;
  std::thread thread_;
};

}  // namespace taut
