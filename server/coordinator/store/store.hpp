#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>

#include "common/result.hpp"
#include "server/coordinator/store/coordinator_records.hpp"

namespace taut {

/// Persistent storage of a coordinator's state. Thread: one at a time.
class CoordinatorStore {
 public:
  virtual ~CoordinatorStore() = default;

  /// Everything that was saved; empty at first. Errors: io, invalid (damaged).
  [[nodiscard]] virtual Result<CoordinatorRecords> load() = 0;
  /// Stores all changes or none (but see make_etcd_store); after a success they are on the disk.
  /// Errors    io: nothing was stored, and a later save may succeed; closed: the disk's content is
  ///           unknown (a failed fsync), so this store cannot be used any more and must be reopened
  [[nodiscard]] virtual Result<void> save(const CoordinatorChanges& changes) = 0;
  /// The largest definition of a job that can be stored, in bytes.
  [[nodiscard]] virtual std::size_t max_definition() const {
    return std::numeric_limits<std::size_t>::max();
  }
};

/// Keeps the state in memory. `records` may be passed from one store to the next, as a disk would
/// be.
[[nodiscard]] std::unique_ptr<CoordinatorStore> make_memory_store(
    std::shared_ptr<CoordinatorRecords> records = nullptr);

/// Keeps the state in `coordinator.sqlite` in this folder, which is created if it is missing.
/// Errors    io: cannot be opened or written; exists: another coordinator uses it;
///           mismatch: another program's, or written by a newer release
[[nodiscard]] Result<std::unique_ptr<CoordinatorStore>> open_sqlite_store(
    const std::filesystem::path& folder);

}  // namespace taut
