#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "common/result.hpp"

namespace taut {

/// The keys of one run's processes, in a folder that is removed with this object, unless the next
/// run has replaced it: add_key() makes one for each, valid only for its own name and role. The
/// cluster is the user's own, and the user's key is admitted too, so commands and browsers reach
/// the run as they reach daemons.
class RunKeys {
 public:
  /// Makes `folder`, replacing one that a killed run has left. If the file system cannot protect
  /// files from other users, a temporary folder is used instead.
  /// Errors    io
  [[nodiscard]] static Result<RunKeys> make(const std::filesystem::path& folder);
  /// Removes the folder if it is still this run's.
  ~RunKeys();
  RunKeys(RunKeys&& other) noexcept
      : folder_(std::exchange(other.folder_, {})), run_(std::move(other.run_)) {}
  RunKeys& operator=(RunKeys&& other) noexcept;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  RunKeys(std::filesystem::path folder, std::string run)
      : folder_(std::move(folder)), run_(std::move(run)) {}
  void remove();

  std::filesystem::path folder_;
  std::string run_;  // the text of the folder's file `run`, which identifies the run
};

}  // namespace taut
