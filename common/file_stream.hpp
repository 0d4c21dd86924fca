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
#include "common/file_writer.hpp"
#include "common/result.hpp"

namespace taut {

/// A large file that is written from its start to its end, and appears whole or not at all. What is
/// appended is gathered in blocks, which a thread of its own brings to the disk past the page cache:
/// whoever appends makes the next block meanwhile, and the disk never waits for him.
/// Thread    one at a time
class FileStream {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{8} << 20U;

  /// bytes     how many will be appended until it is committed
  /// Errors    io. Throws std::bad_alloc.
  [[nodiscard]] static Result<std::unique_ptr<FileStream>> create(const std::filesystem::path& path,
                                                                  std::uint64_t bytes);
  /// Drops the file where it was not committed.
  ~FileStream();
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;

  /// Copies the bytes, and waits where the disk is behind by all blocks.
  /// Errors    io: with the file and what the system said; it may be an earlier piece that failed
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);

  /// Returns when all of it is on the disk and in its place; nothing is appended afterwards.
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

  static constexpr std::size_t kBlocks = 3;  // one is filled, one is written, one waits

  FileWriter file_;
  const std::uint64_t bytes_;
  std::uint64_t written_ = 0;  // by the thread
  std::optional<Block> filling_;
  BoundedQueue<Block> full_{kBlocks};
  BoundedQueue<Block> empty_{kBlocks};
  std::optional<Error> error_;  // of the thread; read once failed_ says so
  std::atomic<bool> failed_ = false;
  std::thread thread_;
};

}  // namespace taut
