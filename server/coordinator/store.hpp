#pragma once

#include <filesystem>
#include <memory>

#include "common/result.hpp"
#include "server/coordinator/coordinator_records.hpp"

namespace taut {

/// Where a coordinator's state outlives it. Thread: one at a time.
class CoordinatorStore {
 public:
  virtual ~CoordinatorStore() = default;

  /// Everything that was saved; empty at first. Errors: io, invalid (damaged).
  [[nodiscard]] virtual Result<CoordinatorRecords> load() = 0;
  /// Keeps all of it or nothing; when it returns well, it is on the disk. Errors: io.
  [[nodiscard]] virtual Result<void> save(const CoordinatorChanges& changes) = 0;
};

/// Keeps it for as long as the object lives. `records` may be shared by one store after another, as
/// a disk is.
[[nodiscard]] std::unique_ptr<CoordinatorStore> make_memory_store(
    std::shared_ptr<CoordinatorRecords> records = nullptr);

/// Keeps it in `coordinator.sqlite` in this folder, which is made where it is missing.
/// Errors    io: cannot be opened or written; exists: another coordinator uses it;
///           mismatch: not ours, or written by a newer release
[[nodiscard]] Result<std::unique_ptr<CoordinatorStore>> open_sqlite_store(
    const std::filesystem::path& folder);

}  // namespace taut
