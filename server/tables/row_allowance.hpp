#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "proto/pushed_update.hpp"

namespace taut::server {

/// How many bytes of one member's rows of a clock wait at a shard at most.
struct ClockBytes {
  std::uint64_t updates = 0;  // those that wait for other members'
  std::uint64_t reads = 0;    // the numbers of rows that are not yet answered
  std::uint64_t answers = 0;  // the values of these, once they are

  /// buckets  of the table's that the shard has
  [[nodiscard]] static ClockBytes of(const TableSpec& table, std::uint64_t buckets);
};

/// What waits at a shard of a table by rows, in addition to the rows that it keeps: updates that
/// wait for other members', and reads that are too early. For each member there is room for the
/// updates of two clocks: one for those at the lowest V of the table's buckets, which are always
/// taken, so that V rises; and one for all others, which are to be sent again where it is full.
/// Then V does not wait for what has no room, whatever members send.
/// Thread    shard thread
class RowAllowance : public std::enable_shared_from_this<RowAllowance> {
 public:
  /// buckets  of the table's that the shard has
  /// members  of the job at most
  RowAllowance(const TableSpec& table, std::uint64_t buckets, std::uint64_t members)
      : each_(ClockBytes::of(table, buckets)), members_(members) {}

  /// The most that waits at a shard, in bytes.
  [[nodiscard]] static std::uint64_t max_bytes(const TableSpec& table, std::uint64_t buckets,
                                               std::uint64_t members);
  /// What a backup keeps at most of updates that are logged (`durability: SYNC`): those that count
  /// (max_unsaved()), those of two clocks that wait, in the log or for other members', and as much
  /// again of these, which are sent once more where its primary or its other backups change.
  [[nodiscard]] static std::uint64_t max_logged_bytes(const TableSpec& table, std::uint64_t buckets,
                                                      std::uint64_t members);
  /// Bytes of logged updates that count before each backup has an image that holds them.
  [[nodiscard]] std::uint64_t max_unsaved() const {
    return kUnsavedClocks * members_ * each_.updates;
  }
  /// What an update takes, its place in lists included.
  [[nodiscard]] static std::uint64_t bytes_of(const Update& update);

  /// Bytes that are counted, until it ends.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept { *this = std::move(other); }
    Share& operator=(Share&& other) noexcept;
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() { release(); }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

   private:
    friend class RowAllowance;
    Share(std::shared_ptr<RowAllowance> from, WorkerId worker, Clock clock, std::uint64_t bytes)
        : from_(std::move(from)), worker_(worker), clock_(clock), bytes_(bytes) {}
    void release();
    std::shared_ptr<RowAllowance> from_;
    WorkerId worker_;
    Clock clock_;  // of an update; never: it is a read's
    std::uint64_t bytes_ = 0;
  };

  /// Whether a member's updates of one clock take more than its table's clock_rows can.
  [[nodiscard]] bool is_beyond_clock(WorkerId worker, Clock clock, std::uint64_t bytes) const;
  /// Whether there is room for an update that is not at the lowest V.
  [[nodiscard]] bool may_hold(WorkerId worker, std::uint64_t bytes) const;
  /// Counts an update, whether there is room or not.
  [[nodiscard]] Share hold(WorkerId worker, Clock clock, std::uint64_t bytes);

  /// Counts a read of so many rows; without a part of the allowance where there is no room.
  /// replaced  bytes of the member's read whose place it takes
  [[nodiscard]] Share park(WorkerId worker, std::uint64_t rows, std::uint64_t replaced);

 private:
  // More than is between two images of each bucket where they take turns (4 clocks, and 2 on
  // average), so that few are made before their turn.
  static constexpr std::uint64_t kUnsavedClocks = 4;

  struct Waiting {
    std::map<Clock, std::uint64_t> updates;  // bytes, by clock
    std::uint64_t held = 0;                  // the sum of these
    std::uint64_t reads = 0;
  };
  const ClockBytes each_;
  const std::uint64_t members_;
  std::map<WorkerId, Waiting> waiting_;
  std::uint64_t held_ = 0;  // of all members
};

}  // namespace taut::server
