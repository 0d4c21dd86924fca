#pragma once

#include <filesystem>
#include <utility>

#include "common/result.hpp"

namespace taut {

/// The keys of one run's processes, in a folder that ends with it: add_key() makes one for each,
/// good for its own name and role alone. The cluster is the user's own, and the user's key is
/// admitted too: the user's commands and browsers reach the run as they reach the user's daemons.
class RunKeys {
 public:
  /// Makes `folder`, in place of one that a killed run has left. Where the file system does not
  /// keep files from other users, a temporary folder takes its place.
  /// Errors    io
  [[nodiscard]] static Result<RunKeys> make(const std::filesystem::path& folder);
  /// Removes the folder.
  ~RunKeys();
  RunKeys(RunKeys&& other) noexcept : folder_(std::move(other.folder_)) { other.folder_.clear(); }
  RunKeys& operator=(RunKeys&& other) noexcept;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  explicit RunKeys(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void remove();

  std::filesystem::path folder_;
};

}  // namespace taut
