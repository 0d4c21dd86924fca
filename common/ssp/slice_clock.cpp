#include "common/ssp/slice_clock.hpp"

#include <algorithm>

#include "common/check.hpp"

namespace taut {

bool SliceClock::update(const Membership& membership) {
  for (const Member& member : membership.members()) {
    const auto [entry, added] = progress_.try_emplace(member.worker, Progress{member.join});
    entry->second.leave = member.leave;
  }
  return raise_version();
}

Clock SliceClock::done(WorkerId worker) const {
  const auto found = progress_.find(worker);
  TAUT_CHECK(found != progress_.end(), "the clock of a worker that is no member");
  return found->second.done;
}

PushVerdict SliceClock::judge(WorkerId worker, Clock clock) const {
  const Clock expected = done(worker);
  if (clock < expected) return PushVerdict::kDuplicate;
  return clock == expected ? PushVerdict::kAccept : PushVerdict::kAhead;
}

bool SliceClock::accept(WorkerId worker) {
  const auto found = progress_.find(worker);
  TAUT_CHECK(found != progress_.end(), "a push of a worker that is no member");
  const Clock before = found->second.done;
  found->second.done = before.next();
  // Only the slowest member can raise the minimum.
  return before == version_ && raise_version();
}

bool SliceClock::raise_version() {
  Clock lowest = Clock::never();
  for (const auto& [worker, progress] : progress_) {
    lowest = std::min(lowest, progress.frontier());
  }
  if (lowest == Clock::never() || lowest <= version_) return false;
  version_ = lowest;
  return true;
}

}  // namespace taut
