#include "common/ssp/membership.hpp"

#include <algorithm>
#include <utility>

#include "common/check.hpp"

namespace taut {

Membership::Membership(EpochId epoch, std::vector<Member> members, std::map<Clock, ApplyMode> modes)
    : epoch_(epoch), members_(std::move(members)), modes_(std::move(modes)) {
  TAUT_CHECK(!modes_.empty() && modes_.begin()->first <= Clock(0), "a mode from clock 0 on");
  std::sort(members_.begin(), members_.end(),
            [](const Member& a, const Member& b) { return a.worker < b.worker; });
  note_spans();
}

void Membership::note_spans() {
  joins_.clear();
  leaves_.clear();
  any_leaves_ = false;
  for (const Member& member : members_) {
    any_leaves_ |= member.leave != Clock::never();
    if (member.leave <= member.join) continue;
    joins_.push_back(member.join);
    leaves_.push_back(member.leave);
  }
  std::ranges::sort(joins_);
  std::ranges::sort(leaves_);
}

const Member* Membership::find(WorkerId worker) const {
  const auto found =
      std::lower_bound(members_.begin(), members_.end(), worker,
                       [](const Member& member, WorkerId id) { return member.worker < id; });
  return found != members_.end() && found->worker == worker ? &*found : nullptr;
}

std::size_t Membership::count_at(Clock clock) const {
  const auto joined = std::ranges::upper_bound(joins_, clock) - joins_.begin();
  const auto left = std::ranges::upper_bound(leaves_, clock) - leaves_.begin();
  return static_cast<std::size_t>(joined - left);
}

ApplyMode Membership::mode_at(Clock clock) const {
  const auto after = modes_.upper_bound(clock);
  return after == modes_.begin() ? after->second : std::prev(after)->second;
}

Clock Membership::aggregated_until(Clock clock) const {
  Clock end = clock;
  for (auto mode = modes_.lower_bound(clock); mode != modes_.begin(); end = mode->first) {
    --mode;
    if (mode->second == ApplyMode::kAggregate) return end;
  }
  return Clock(0);
}

Membership Membership::with_leaves(const std::map<WorkerId, Clock>& leaves) const {
  Membership changed = *this;
  for (Member& member : changed.members_) {
    const auto leave = leaves.find(member.worker);
    if (leave != leaves.end()) member.leave = leave->second;
  }
  changed.note_spans();
  return changed;
}

Membership Membership::before_losses() const {
  Membership changed = *this;
  for (Member& member : changed.members_) {
    if (member.fenced) member.leave = Clock::never();
  }
  changed.note_spans();
  return changed;
}

}  // namespace taut
