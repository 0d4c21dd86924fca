#pragma once

#include <string>

namespace taut {

/// SQLite's disk, made to fail: a file system in front of the default one, for every database that
/// is opened while it exists.
/// Thread    any; one at a time
class FailingDisk {
 public:
  enum class Fault { kNone, kNoSpace, kWriteError, kTornWrite, kSyncError };

  FailingDisk();
  ~FailingDisk();
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

  /// From the `calls`-th write (kSyncError: sync) from now on, until another fault is set.
  void set(Fault fault, int calls = 1);
  /// Writes and syncs so far.
  [[nodiscard]] int writes() const;
  [[nodiscard]] int syncs() const;
};

}  // namespace taut
