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

/// A primary's side of `durability: SYNC` for one slice: updates in the order in which they
/// arrived, of which none counts before each backup has it and those before it.
/// Thread    shard thread
class UpdateLog {
 public:
  static constexpr std::size_t kMax = 1024;  // updates of one slice
  /// Bytes of updates on their way to the backups.
  static constexpr std::uint64_t kUnderWay = 16ULL << 20U;

  /// A push, and where its answer goes.
  struct Push {
    PeerId from;
    WorkerId worker;
    Incarnation incarnation;
    DataItem item;
    bool counts_already = false;         // the slice has accepted it before there was this backup
    std::shared_ptr<const void> room{};  // of a bucket's allowance, which it takes until it counts
  };

  /// A push that is here already takes its place: it was sent again.
  void add(Push push);
  /// Updates that the slice holds and that new backups are to have, before all that are here.
  void add_first(std::vector<Push> held);
  [[nodiscard]] bool has(WorkerId worker, Clock clock) const;
  /// The highest clock of a worker's updates; nullopt if there are none.
  [[nodiscard]] std::optional<Clock> newest(WorkerId worker) const;

  /// There are other backups, which have none of them.
  void begin_anew(std::size_t backups);
  /// Puts updates that are to be sent now, or again, into the messages, one for each backup, as far
  /// as they have room.
  /// under_way  bytes of all slices' updates on their way to the backups
  /// again      after which one that was not acknowledged is sent again; then twice that
  void send(std::span<DataImages> batches, std::uint64_t& under_way, TimePoint now, Duration again);
  /// Bytes of these on their way.
  [[nodiscard]] std::uint64_t under_way() const { return under_way_; }
  /// A backup has this one.
  void note_kept(std::size_t backup, WorkerId worker, Clock clock);
  /// Updates that each backup has, up to the first that one lacks.
  /// most  how many of them
  [[nodiscard]] std::vector<Push> take_kept(
      std::size_t most = std::numeric_limits<std::size_t>::max());
  /// The first of those that take_kept() would take; nullptr: it would take none.
  [[nodiscard]] const Push* next_kept() const;
  /// All of them: there is no backup.
  [[nodiscard]] std::vector<Push> take_all();

  /// Whether a backup lacks some that the slice has accepted before.
  [[nodiscard]] bool lacks_accepted() const;
  /// Updates that do not count yet.
  [[nodiscard]] std::size_t waiting() const;
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] bool is_full() const { return entries_.size() >= kMax; }
  /// Since when one is on its way that a backup lacks, the oldest; never: it lacks none.
  [[nodiscard]] TimePoint lacks_since(std::size_t backup) const;
  /// They count as sent first now: this process did not run.
  void excuse(TimePoint now);

 private:
  struct Entry {
    Push push;
    BackupSet lacking;                 // the backups that have not said that they have it
    std::optional<TimePoint> since{};  // sent first, to these backups
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
