#include "common/ssp/slice_clock.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"

namespace taut {

bool SliceClock::update(const Membership& membership) {
  for (const Member& member : membership.members()) {
    const auto [entry, added] =
        progress_.try_emplace(member.worker, Progress{member.join, member.join});
    entry->second.leave = member.leave;
  }
  std::erase_if(progress_,
                [&](const auto& entry) { return membership.find(entry.first) == nullptr; });
  note_frontiers();
  return raise_version();
}

void SliceClock::note_frontiers() {
  furthest_behind_ = 0;
  frontiers_.clear();
  for (const auto& [worker, progress] : progress_) ++frontiers_[frontier(progress)];
}

Clock SliceClock::done(WorkerId worker) const {
  const auto found = progress_.find(worker);
  TAUT_CHECK(found != progress_.end(), "the clock of a worker that is not a member");
  return found->second.done;
}

WorkerId SliceClock::holds_back(WorkerId reader, Clock clock) const {
  if (done(reader) < clock) return reader;
  // The lowest number among the furthest behind. Numbers are assigned in order, so it is usually
  // among the first; each search begins where the last one ended.
  for (; furthest_behind_ < progress_.size(); ++furthest_behind_) {
    const auto found = progress_.find(WorkerId(furthest_behind_));
    if (found == progress_.end()) continue;
    if (frontier(found->second) == frontiers_.begin()->first) return found->first;
  }
  const auto slowest = std::ranges::min_element(progress_, {}, [this](const auto& entry) {
    return std::pair(frontier(entry.second), entry.first);
  });
  return slowest->first;
}

PushVerdict SliceClock::judge(WorkerId worker, Clock clock) const {
  const Clock from = done(worker);
  if (clock < from) return PushVerdict::kDuplicate;
  // Others have ended its clocks without it. Without backup workers too, V may be beyond a member's
  // own progress, after a take-over: what waited in a buffer must be repeated.
  const bool left_out = backup_workers_ > 0 && from < version_ && clock <= version_;
  const bool accepted = clock == schedule_.first_from(from) || left_out;
  return accepted ? PushVerdict::kAccept : PushVerdict::kAhead;
}

bool SliceClock::accept(WorkerId worker, Clock clock) {
  const auto found = progress_.find(worker);
  TAUT_CHECK(found != progress_.end(), "a push of a worker that is not a member");
  const Clock before = found->second.done;
  const auto passed = frontiers_.find(frontier(found->second));
  if (--passed->second == 0) {
    if (passed == frontiers_.begin()) furthest_behind_ = 0;
    frontiers_.erase(passed);
  }
  found->second.done = clock.next();
  ++frontiers_[frontier(found->second)];
  // Without backup workers only a member that is not beyond V can raise it.
  return (before <= version_ || backup_workers_ > 0) && raise_version();
}

/// A member that left owes nothing once it has no push left before its leave clock, and then holds
/// no other member back.
Clock SliceClock::frontier(const Progress& progress) const {
  return schedule_.first_from(progress.done) < progress.leave ? progress.done : Clock::never();
}

bool SliceClock::raise_version() {
  const Clock before = version_;
  const Clock lowest = frontiers_.empty() ? Clock::never() : frontiers_.begin()->first;
  if (lowest == Clock::never()) return false;
  version_ = std::max(version_, lowest);
  while (backup_workers_ > 0 && is_over(version_)) version_ = version_.next();
  return version_ > before;
}

bool SliceClock::is_over(Clock clock) const {
  std::size_t members = 0;
  std::size_t pushed = 0;
  for (const auto& [worker, progress] : progress_) {
    if (clock < progress.join || clock >= progress.leave) continue;
    ++members;
    if (progress.done > clock) ++pushed;
  }
  return members > 0 && pushed >= quorum_of(members, backup_workers_);
}

}  // namespace taut
