#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"
#include "server/replication/backup_set.hpp"

namespace taut::server {

/// The primary's side of `durability: SYNC` for one slice: updates in order of arrival. None counts
/// before every backup has it and all updates before it.
/// Thread    shard thread
class UpdateLog {
 public:
  static constexpr std::size_t kMaxUpdates = 1024;  // of one slice
  /// The most bytes of updates in flight to the backups.
  static constexpr std::uint64_t kMaxBytesInFlight = 16ULL << 20U;

  /// A push, and where its answer goes.
  struct Push {
    PeerId from;
    WorkerId worker;
    Incarnation incarnation;
    DataItem item;
    bool counts_already = false;         // the slice accepted it before this backup existed
    std::shared_ptr<const void> room{};  // of a bucket's allowance, taken until it counts
  };

  /// Appends a push. A repeated push replaces the earlier one.
  void add(Push push);
  /// Inserts updates that the slice holds and that new backups must get, before all others.
  void add_first(std::vector<Push> held);
  [[nodiscard]] bool has(WorkerId worker, Clock clock) const;
  /// The highest clock of a worker's updates; nullopt if there are none.
  [[nodiscard]] std::optional<Clock> newest(WorkerId worker) const;

  /// Restarts for other backups, which have none of the updates, and drops those that count
  /// already.
  void reset(std::size_t backups);
  /// Appends the updates that must be sent now, or again, to the messages, one for each backup, as
  /// far as they have room.
  /// under_way  bytes of all slices' updates in flight to the backups
  /// again      time after which an unacknowledged update is sent again; it then doubles
  void send(std::span<DataImages> batches, std::uint64_t& under_way, TimePoint now, Duration again);
  /// Bytes of these updates that are in flight.
  [[nodiscard]] std::uint64_t under_way() const { return under_way_; }
  /// Notes that a backup has this update.
  void note_kept(std::size_t backup, WorkerId worker, Clock clock);
  /// Removes and returns the updates that every backup has, up to the first that one lacks.
  /// most  at most this many
  [[nodiscard]] std::vector<Push> take_kept(
      std::size_t most = std::numeric_limits<std::size_t>::max());
  /// The first update that take_kept() would return; nullptr if it would return none.
  [[nodiscard]] const Push* next_kept() const;
  /// Removes and returns all updates that do not count yet: there is no backup.
  [[nodiscard]] std::vector<Push> take_all();

  /// Whether a backup lacks an update that counts already.
  [[nodiscard]] bool lacks_accepted() const;
  /// How many updates do not count yet.
  [[nodiscard]] std::size_t waiting() const;
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] bool is_full() const { return entries_.size() >= kMaxUpdates; }
  /// When the oldest update in flight that a backup lacks was first sent; never() if it lacks none.
  [[nodiscard]] TimePoint lacks_since(std::size_t backup) const;
  /// Restarts the ages: the process was suspended.
  void excuse(TimePoint now);

 private:
  struct Entry {
    Push push;
    BackupSet lacking;                 // the backups that have not acknowledged it
    std::optional<TimePoint> since{};  // first sent to these backups
    std::optional<TimePoint> sent{};
    int attempts = 0;
    std::uint64_t number = 0;  // in the order in which they count
  };
  [[nodiscard]] std::deque<Entry>::iterator find(WorkerId worker, Clock clock);

  std::deque<Entry> entries_;
  std::size_t backups_ = 1;
  std::uint64_t number_ = 0;
  std::uint64_t under_way_ = 0;
};

}  // namespace taut::server
