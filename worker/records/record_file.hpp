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

/// A file that grows while a job runs. Appended text reaches the operating system within about a
/// second, so a reader sees it, and a killed process loses little. If a write fails, it logs that
/// once and writes no more: a record never ends a training run.
/// Thread    one
class RecordFile {
 public:
  /// appends  keeps the existing content; else the file starts empty
  /// Errors   io: the file cannot be opened
  [[nodiscard]] static Result<RecordFile> open(const std::filesystem::path& path, bool appends);

  void append(std::string_view bytes, TimePoint now);
  void flush();
  /// Whether a write has failed: nothing more is written then.
  [[nodiscard]] bool has_ended() const { return !file_; }
  /// Whether it was empty when it was opened.
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
