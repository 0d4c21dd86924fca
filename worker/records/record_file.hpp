#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "common/time.hpp"

namespace taut::worker {

/// A file that grows while a job runs. What is appended reaches the operating system within about a
/// second, so a reader sees it, and a killed process loses little. When the disk refuses, it says so
/// once in the log and takes no more: a record never ends a training.
/// Thread    one
class RecordFile {
 public:
  /// appends  keeps what is there; else the file begins empty
  /// Errors   io: the file cannot be opened
  [[nodiscard]] static Result<RecordFile> open(const std::filesystem::path& path, bool appends);

  void append(std::string_view bytes, TimePoint now);
  void flush();
  /// The disk refused: nothing more is written.
  [[nodiscard]] bool has_ended() const { return !file_; }
  /// Nothing was in it when it was opened.
  [[nodiscard]] bool began_empty() const { return began_empty_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool began_empty_ = true;
  TimePoint next_flush_;
};

}  // namespace taut::worker
