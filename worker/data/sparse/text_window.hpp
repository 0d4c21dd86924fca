#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "common/files/gz_stream.hpp"
#include "common/result.hpp"

namespace taut::data {

/// A text file, plain or gzip, that is read from start to end; only a part of it is in memory at a
/// time.
/// Thread    one at a time
class TextWindow {
 public:
  /// The maximum length of a line.
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20U;

  /// Errors    as GzStream::open
  [[nodiscard]] static Result<TextWindow> open(const std::filesystem::path& path);

  /// The text that has been read and not passed yet.
  [[nodiscard]] std::string_view text() const { return std::string_view(bytes_).substr(begin_); }
  /// Advances past the first `bytes` bytes of text().
  void pass(std::size_t bytes) { begin_ += bytes; }

  /// Appends more of the file to text(). Returns false at the file's end, or if text() already has
  /// kMaxBytes.
  /// Errors    as GzStream::read
  [[nodiscard]] Result<bool> extend();
  [[nodiscard]] bool has_ended() const { return has_ended_; }

 private:
  explicit TextWindow(GzStream stream) : stream_(std::move(stream)) {}

  GzStream stream_;
  std::string bytes_;
  std::size_t begin_ = 0;
  bool has_ended_ = false;
};

}  // namespace taut::data
