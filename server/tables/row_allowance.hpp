#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "proto/pushed_update.hpp"

namespace taut::server {

/// The most bytes of one member's rows of one clock that wait at a shard.
struct ClockBytes {
  std::uint64_t updates = 0;  // updates that wait for other members' updates
  std::uint64_t reads = 0;    // row numbers of reads that are not answered yet
  std::uint64_t answers = 0;  // the values in their answers

  /// buckets  how many of the table's buckets the shard has
  [[nodiscard]] static ClockBytes of(const TableSpec& table, std::uint64_t buckets);
};

/// The memory for what waits at a shard for a table by rows, in addition to the rows that it keeps:
/// updates that wait for other members' updates, and reads that are too early. Each member has room
/// for the updates of two clocks: one for those at the lowest V of the table's buckets, which are
/// always accepted, so that V can rise; and one for all others, which must be sent again if it is
/// full. Thus V never waits for an update that has no room, whatever members send.
/// Thread    shard thread
class RowAllowance : public std::enable_shared_from_this<RowAllowance> {
 public:
  /// buckets  how many of the table's buckets the shard has
  /// members  the most members of the job
  RowAllowance(const TableSpec& table, std::uint64_t buckets, std::uint64_t members)
      : each_(ClockBytes::of(table, buckets)), members_(members) {}

  /// The most bytes that wait at a shard.
  [[nodiscard]] static std::uint64_t max_bytes(const TableSpec& table, std::uint64_t buckets,
                                               std::uint64_t members);
  /// The most bytes of logged updates (`durability: SYNC`) that a backup keeps: those that count
  /// (max_unsaved()), those of two clocks that wait, in the log or for other members' updates, and
  /// the latter once more, since they are sent again when its primary or its other backups change.
  [[nodiscard]] static std::uint64_t max_logged_bytes(const TableSpec& table, std::uint64_t buckets,
                                                      std::uint64_t members);
  /// The most bytes of logged updates that count before every backup has an image with them.
  [[nodiscard]] std::uint64_t max_unsaved() const {
    return kMaxUnsavedClocks * members_ * each_.updates;
  }
  /// The bytes that an update takes, including its entries in lists.
  [[nodiscard]] static std::uint64_t bytes_of(const Update& update);

  /// Bytes that are counted until this is destroyed.
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
    Clock clock_;  // of an update; never() for a read
    std::uint64_t bytes_ = 0;
  };

  /// Whether a member's updates of one clock, with `bytes` more, take more than clock_rows allows.
  [[nodiscard]] bool is_beyond_clock(WorkerId worker, Clock clock, std::uint64_t bytes) const;
  /// Whether there is room for an update that is not at the lowest V.
  [[nodiscard]] bool may_hold(WorkerId worker, std::uint64_t bytes) const;
  /// Counts an update, whether there is room or not.
  [[nodiscard]] Share hold(WorkerId worker, Clock clock, std::uint64_t bytes);

  /// Counts a read of `rows` rows; returns an empty share if there is no room.
  /// replaced  bytes of the member's read that it replaces
  [[nodiscard]] Share park(WorkerId worker, std::uint64_t rows, std::uint64_t replaced);

 private:
  // More than the clocks between two images of a bucket when buckets take turns (4, and 2 on
  // average), so that few images are made before their turn.
  static constexpr std::uint64_t kMaxUnsavedClocks = 4;

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
