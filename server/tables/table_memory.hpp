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
/// What a slice takes in addition to its values, rounded up: of 50,000 tables of one element each
/// took 2.8 kB, and 3.2 kB with momentum.
inline constexpr std::uint64_t kSliceBytes = 4096;

/// What a host has of a shard: its slices, or images of them and the updates that are logged.
enum class HostRole { kPrimary, kBackup };

/// What a shard needs of each table if slices are spread evenly: right to within a slice, and known
/// before any is cut. It is the values, and as members get them if those are encoded, what the rule
/// remembers, the updates that a buffer holds, kSliceBytes for each slice, and for delay
/// compensation what each member of the job has read, of those that are known when the tables are
/// opened. Of a table that is kept by rows it is what as many rows as it may keep take, and what
/// waits of its members' updates and reads (RowAllowance); at a backup in a job that logs updates,
/// at least those that are logged.
[[nodiscard]] std::vector<TableNeed> even_needs(std::span<const TableSpec> tables,
                                                const JobView& job,
                                                HostRole role = HostRole::kPrimary);
/// The exact needs of a shard's slices, to the byte.
[[nodiscard]] std::vector<TableNeed> needs_at(ShardId shard, const SliceLayout& layout,
                                              std::span<const TableSpec> tables, const JobView& job,
                                              HostRole role = HostRole::kPrimary);

/// What one table that is kept by rows needs of a shard, in bytes.
/// buckets  of the table's that the shard has
/// members  of the job at most
/// is_logged  its updates are, and it is a backup's
[[nodiscard]] std::uint64_t row_table_bytes(const TableSpec& table, std::uint64_t buckets,
                                            std::size_t states, std::uint64_t members,
                                            bool is_logged = false);

/// How many bytes the tables of a server's shards may take together. A peer may ask for tables of
/// any size; what goes beyond is refused before anything is made.
/// Thread    any
class TableMemory : public std::enable_shared_from_this<TableMemory> {
 public:
  explicit TableMemory(Bytes limit) : limit_(limit.value()) {}

  /// Bytes that are taken, given back with it.
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

  /// Whether the tables fit into the remaining memory.
  /// Errors    invalid: the first table that does not, the bytes it needs and those that are left
  [[nodiscard]] Result<void> check(std::span<const TableNeed> tables) const;
  /// Takes what they need. Errors: as check().
  [[nodiscard]] Result<Share> take(std::span<const TableNeed> tables) {
    return take(tables, Share());
  }
  /// Overload in place of a former share, of which no other tables get anything in between.
  [[nodiscard]] Result<Share> take(std::span<const TableNeed> tables, Share former);

  /// Takes bytes that can be done without, where tables and others of the kind leave as many;
  /// nullopt if they do not. Later tables get them nevertheless: see is_short().
  [[nodiscard]] std::optional<Share> take_spare(Bytes bytes);
  /// Whether tables need the spare memory: each shard that has some returns it soon.
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
