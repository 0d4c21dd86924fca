#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "common/result.hpp"
#include "common/types.hpp"

namespace taut {

/// Reads a file's bytes in order, decompressed if the file is gzip, with one member or several.
/// Only one block of the file is in memory at a time.
/// Thread    one at a time
/// Source    RFC 1952
class GzStream {
 public:
  /// Errors    as open_to_read(); io
  [[nodiscard]] static Result<GzStream> open(const std::filesystem::path& path);
  ~GzStream();
  GzStream(GzStream&& other) noexcept;
  GzStream& operator=(GzStream&& other) noexcept;

  /// Whether the file is gzip, according to its first two bytes.
  [[nodiscard]] bool is_packed() const;

  /// Fills `out` with the next bytes. Returns their number, less than its size only at the end.
  /// Errors    io; invalid: a gzip stream that is damaged or truncated, with the place
  [[nodiscard]] Result<std::size_t> read(std::span<std::byte> out);

 private:
  struct State;
  explicit GzStream(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// The most bytes of one file that are kept in memory: half of available_memory(), or `limit` if
/// that is less or the former is unknown.
[[nodiscard]] Bytes in_memory_limit(Bytes limit);

}  // namespace taut
