#pragma once

#include <cstddef>
#include <map>
#include <unordered_map>

#include "common/ssp/membership.hpp"
#include "common/ssp/push_schedule.hpp"
#include "common/types.hpp"

namespace taut {

/// How a shard judges a push by its clock alone.
enum class PushVerdict : std::uint8_t {
  kAccept,     // the next expected one; with backup workers, any that V has reached
  kDuplicate,  // accepted before: acknowledge again, drop
  kAhead,      // earlier ones are missing
};

/// The clocks of one slice: done(w) for every member, and V, their minimum. V never falls.
///
/// With b backup workers V is the first clock that fewer than n - b of its n members have pushed:
/// the aggregates below it are complete. A worker behind V may leave out what would only be
/// dropped, and push at V next.
/// Source    Chen et al., "Revisiting Distributed Synchronous SGD", 2016, algorithms 3 and 4
class SliceClock {
 public:
  explicit SliceClock(std::uint32_t backup_workers = 0, PushSchedule schedule = {})
      : backup_workers_(backup_workers), schedule_(schedule) {}

  /// Adopts a new membership. A joined member starts at its join clock; one that has left
  /// counts only while it owes an update from before it left; one that is no longer named is
  /// forgotten. Returns whether V rose.
  bool update(const Membership& membership);

  /// Starts a member at another clock than its join clock: a checkpoint has recorded what was
  /// accepted before. REQUIRES: no update() has named it yet.
  void begin_at(WorkerId worker, Clock done) {
    progress_.try_emplace(worker, Progress{done, done});
    note_frontiers();
  }

  /// Starts from a version that was reached before: V never falls, and with backup workers it does
  /// not follow from what was accepted. REQUIRES: no update() has been called yet.
  void begin_version(Clock version) { version_ = version; }

  /// The next clock expected from a member. REQUIRES: it is one.
  [[nodiscard]] Clock done(WorkerId worker) const;
  [[nodiscard]] Clock version() const { return version_; }
  /// The first clock of which an update may be missing: V, or where members push at the ends of
  /// intervals, the next end.
  [[nodiscard]] Clock complete_until() const { return schedule_.first_from(version_); }
  /// Whether a member still owes an update below V, without backup workers: after a take-over, one
  /// that waited in a buffer must be repeated.
  [[nodiscard]] bool is_owed() const {
    return backup_workers_ == 0 && !frontiers_.empty() && frontiers_.begin()->first < version_;
  }
  /// The worker whose next update a read of `reader` at `clock` waits for: the reader, or the
  /// member that is furthest behind.
  [[nodiscard]] WorkerId holds_back(WorkerId reader, Clock clock) const;

  [[nodiscard]] PushVerdict judge(WorkerId worker, Clock clock) const;
  /// The clock that a member pushes after `clock`.
  [[nodiscard]] Clock next_after(Clock clock) const { return schedule_.first_from(clock.next()); }
  /// Counts an accepted push. REQUIRES: judge() returned kAccept. Returns whether V rose.
  bool accept(WorkerId worker, Clock clock);

 private:
  struct Progress {
    Clock done;
    Clock join;
    Clock leave = Clock::never();
  };
  [[nodiscard]] Clock frontier(const Progress& progress) const;
  void note_frontiers();
  bool raise_version();
  [[nodiscard]] bool is_over(Clock clock) const;

  std::uint32_t backup_workers_;
  PushSchedule schedule_;
  std::unordered_map<WorkerId, Progress> progress_;
  std::map<Clock, std::size_t> frontiers_;  // how many members have each
  // No member with a lower number has the lowest frontier.
  mutable std::uint32_t furthest_behind_ = 0;
  Clock version_;
};

/// The contract's one condition: may a read at `clock` be answered now?
/// version  V, or SliceClock::complete_until(), before which no update is missing either
/// Source    Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
///           Server", NIPS 2013, section 3
[[nodiscard]] constexpr bool may_read(Clock version, Clock done_reader, Clock clock, Slack slack) {
  if (done_reader < clock) return false;
  return slack.is_unbounded() || clock - version <= slack.clocks();
}

}  // namespace taut
