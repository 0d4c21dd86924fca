#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/types.hpp"
#include "server/job_view.hpp"

namespace taut::server {

/// What one table needs.
struct TableNeed {
  std::string name;
  std::uint64_t bytes = 0;         // at most kMaxBytes
  std::uint64_t compensation = 0;  // of these, what policies may need for the reads that they keep
};
inline constexpr std::uint64_t kMaxBytes = 1ULL << 62U;
/// What a slice takes in addition to its values, rounded up: 50,000 tables of one element took 2.8
/// kB each, and 3.2 kB with momentum.
inline constexpr std::uint64_t kSliceBytes = 4096;

/// What a host has of a shard: its slices, or images of them and the logged updates.
enum class HostRole { kPrimary, kBackup };

/// What a shard needs for each table if slices are spread evenly: accurate to within a slice, and
/// known before any is cut. It includes the values, their encoded form if members get one, the
/// rule's state, the updates that a buffer holds, kSliceBytes for each slice and, for delay
/// compensation, what each member of the job has read (those known when the tables are opened). For
/// a table that is kept by rows it is the size of as many rows as it may keep, and of its members'
/// waiting updates and reads (RowAllowance); at a backup in a job that logs updates, at least that
/// of the logged updates.
[[nodiscard]] std::vector<TableNeed> even_needs(std::span<const TableSpec> tables,
                                                const JobView& job,
                                                HostRole role = HostRole::kPrimary);
/// The exact needs of a shard's slices, to the byte.
[[nodiscard]] std::vector<TableNeed> needs_at(ShardId shard, const SliceLayout& layout,
                                              std::span<const TableSpec> tables, const JobView& job,
                                              HostRole role = HostRole::kPrimary);

/// What one table that is kept by rows needs at a shard, in bytes.
/// buckets  how many of the table's buckets the shard has
/// members  the most members of the job
/// is_logged  its updates are logged, and the shard is a backup
[[nodiscard]] std::uint64_t row_table_bytes(const TableSpec& table, std::uint64_t buckets,
                                            std::size_t states, std::uint64_t members,
                                            bool is_logged = false);

/// Limits the bytes that the tables of a server's shards take together. A peer may ask for tables
/// of any size; those beyond the limit are refused before anything is allocated.
/// Thread    any
class TableMemory : public std::enable_shared_from_this<TableMemory> {
 public:
  explicit TableMemory(Bytes limit) : limit_(limit.value()) {}

  /// Bytes that are taken until this is destroyed.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept;
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share();

   private:
    friend class TableMemory;
    Share(std::shared_ptr<std::atomic<std::uint64_t>> from, std::uint64_t bytes)
        : from_(std::move(from)), bytes_(bytes) {}
    std::shared_ptr<std::atomic<std::uint64_t>> from_;  // one of the counts below
    std::uint64_t bytes_ = 0;
  };

  /// Checks that the tables fit into the remaining memory.
  /// Errors    invalid: the first table that does not, the bytes it needs and those that are left
  [[nodiscard]] Result<void> check(std::span<const TableNeed> tables) const;
  /// Takes what they need. Errors: as check().
  [[nodiscard]] Result<Share> take(std::span<const TableNeed> tables) {
    return take(tables, Share());
  }
  /// Overload that replaces a former share, without other tables getting any of it in between.
  [[nodiscard]] Result<Share> take(std::span<const TableNeed> tables, Share former);

  /// Takes bytes that are optional, if tables and other spare memory leave enough; nullopt if not.
  /// Later tables take precedence: see is_short().
  [[nodiscard]] std::optional<Share> take_spare(Bytes bytes);
  /// Whether tables need the spare memory: every shard that has some must return it soon.
  [[nodiscard]] bool is_short() const;

  [[nodiscard]] Bytes taken() const { return Bytes(taken_); }
  [[nodiscard]] Bytes limit() const { return Bytes(limit_); }

 private:
  [[nodiscard]] Result<std::uint64_t> sum(std::span<const TableNeed> tables,
                                          std::uint64_t taken) const;

  const std::uint64_t limit_;
  std::atomic<std::uint64_t> taken_ = 0;
  std::atomic<std::uint64_t> spare_ = 0;
};

}  // namespace taut::server
