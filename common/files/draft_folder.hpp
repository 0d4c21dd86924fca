#pragma once

#include <filesystem>
#include <memory>

#include "common/files/descriptor.hpp"
#include "common/result.hpp"

namespace taut {

/// A folder of files that appears whole or not at all: it is written as NAME.part next to its place
/// and then renamed. Until then its process holds a lock on a file in it, so that the draft of a
/// process that has ended is recognized and replaced.
/// Thread    one
class DraftFolder {
 public:
  /// Creates an empty draft, and its parent folders.
  /// Errors    exists: the folder exists, another process is writing its draft, or NAME.part is not
  ///           a draft; io
  [[nodiscard]] static Result<std::unique_ptr<DraftFolder>> create(
      const std::filesystem::path& folder);
  /// Removes the draft, unless it was put in place.
  ~DraftFolder();
  DraftFolder(const DraftFolder&) = delete;
  DraftFolder& operator=(const DraftFolder&) = delete;

  /// Where the files are written.
  [[nodiscard]] const std::filesystem::path& path() const { return draft_; }

  /// Renames the draft. REQUIRES: its files are flushed to the disk; called once.
  /// Errors    exists: a folder of that name was created meanwhile; io
  [[nodiscard]] Result<void> put_in_place();

 private:
  DraftFolder(std::filesystem::path place, std::filesystem::path draft, Descriptor lock);
  /// Removes the files of the draft, but not the one with the lock.
  [[nodiscard]] Result<void> remove_files() const;

  const std::filesystem::path place_;
  const std::filesystem::path draft_;
  Descriptor lock_;
  bool is_in_place_ = false;
};

}  // namespace taut
