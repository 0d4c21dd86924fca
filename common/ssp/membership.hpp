#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "common/types.hpp"

namespace taut {

/// How a clock's updates are applied.
enum class ApplyMode : std::uint8_t {
  kAggregate,  // BSP: as one aggregate, when all members' have arrived
  kOnArrival,  // SSP, ASYNC
};

/// How many of a clock's members make its aggregate: all but the backup workers, and at least one.
[[nodiscard]] constexpr std::size_t quorum_of(std::size_t members, std::uint32_t backup_workers) {
  return members > backup_workers ? members - backup_workers : 1;
}

/// One member of a job, for the clocks [join, leave).
struct Member {
  WorkerId worker;
  Incarnation incarnation;
  Clock join;
  Clock leave = Clock::never();
  bool fenced = false;    // declared lost: nothing more is accepted from this incarnation
  bool finished = false;  // it will push nothing more

  [[nodiscard]] bool takes_part_at(Clock clock) const { return join <= clock && clock < leave; }
};

/// A job's members and how updates are applied, as functions of the clock. An epoch is a stretch
/// of clocks over which both stay the same; it needs no separate record.
class Membership {
 public:
  Membership() = default;
  /// modes  each applies from its clock on; must cover clock 0
  Membership(EpochId epoch, std::vector<Member> members, std::map<Clock, ApplyMode> modes);

  [[nodiscard]] EpochId epoch() const { return epoch_; }
  /// All current and former members, ascending by worker.
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  /// A member, or nullptr.
  [[nodiscard]] const Member* find(WorkerId worker) const;
  /// How many members take part at this clock.
  [[nodiscard]] std::size_t count_at(Clock clock) const;
  /// Whether the clock at which some member leaves is known.
  [[nodiscard]] bool any_leaves() const { return any_leaves_; }
  [[nodiscard]] ApplyMode mode_at(Clock clock) const;
  /// One past the last clock below `clock` whose updates are applied as an aggregate; 0 if there is
  /// none.
  [[nodiscard]] Clock aggregated_until(Clock clock) const;
  /// A copy in which each of these members leaves at the clock that is given with it.
  [[nodiscard]] Membership with_leaves(const std::map<WorkerId, Clock>& leaves) const;
  /// A copy in which no lost member has left.
  [[nodiscard]] Membership before_losses() const;

 private:
  void note_spans();

  EpochId epoch_;
  std::vector<Member> members_;
  // Of members that take part at any clock, ascending.
  std::vector<Clock> joins_;
  std::vector<Clock> leaves_;
  bool any_leaves_ = false;
  std::map<Clock, ApplyMode> modes_ = {{Clock(0), ApplyMode::kOnArrival}};
};

}  // namespace taut
