#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/element_type.hpp"
#include "common/files/block_tag.hpp"
#include "common/result.hpp"

namespace taut {

class RandomRead;

/// Where a tensor's numbers are in a file: a table's initial values, used instead of its filler.
struct TensorPlace {
  std::string file;          // an absolute path, the same for every process that reads it
  std::string sha256;        // of the whole file, 64 hex digits
  std::uint64_t offset = 0;  // bytes from its start
  ElementType type = ElementType::kF32;
  friend bool operator==(const TensorPlace&, const TensorPlace&) = default;
};

/// A file whose tensors are read at offsets. If it shrinks meanwhile, a read returns an error and
/// never raises a signal.
/// Thread    reads from several at once are allowed
class TensorFile {
 public:
  /// Errors: not_found; invalid unless it is a regular file; io.
  [[nodiscard]] static Result<TensorFile> open(const std::filesystem::path& path);
  /// A file that is not stored as a single file, but read through `stored`. path: for messages.
  TensorFile(std::filesystem::path path, std::uint64_t bytes,
             std::shared_ptr<const RandomRead> stored);
  ~TensorFile();
  TensorFile(TensorFile&& other) noexcept;
  TensorFile& operator=(TensorFile&& other) noexcept;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The size when the file was opened.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Whether the file was written after it was opened, according to its modification time.
  [[nodiscard]] bool has_changed() const;
  /// Whether its path now names another file, as after a rename, or none. This one can still be
  /// read.
  [[nodiscard]] bool was_replaced() const;

  /// Errors: invalid beyond the file's end; mismatch: see pin(); io.
  [[nodiscard]] Result<void> read_bytes(std::uint64_t offset, std::span<std::byte> out) const;

  /// Elements as floats from byte `offset` on: F32 unchanged, F16 and BF16 exactly, F64 rounded to
  /// the nearest. Errors: mismatch for another type; as read_bytes.
  [[nodiscard]] Result<void> read_floats(ElementType type, std::uint64_t offset,
                                         std::span<float> out) const;

  /// SHA-256 of the whole file, 64 hex digits; reads the whole file.
  [[nodiscard]] Result<std::string> sha256() const;

  /// As sha256(); later reads fail if the data differ from what was read here, so that a file that
  /// was compared with a digest is used unchanged, even if a process writes to it. Keeps 16 bytes
  /// for every 64 KiB. REQUIRES: no other thread reads meanwhile.
  /// stops   if another thread sets it, pin() ends with an error; nullptr: it is never stopped
  /// Errors  also closed: it was stopped
  [[nodiscard]] Result<std::string> pin(const std::atomic<bool>* stops = nullptr);

 private:
  TensorFile(std::filesystem::path path, int file);
  [[nodiscard]] Result<std::string> digest_of(std::vector<BlockTag>* blocks,
                                              const std::atomic<bool>* stops) const;
  [[nodiscard]] Result<void> read_unpinned(std::uint64_t offset, std::span<std::byte> out) const;
  [[nodiscard]] Result<void> read_pinned(std::uint64_t offset, std::span<std::byte> out) const;

  std::filesystem::path path_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
  std::int64_t modified_ns_ = 0;
  std::shared_ptr<const RandomRead> stored_;  // in place of file_
  std::vector<BlockTag> pinned_;              // of each block; empty: not pinned
};

}  // namespace taut
