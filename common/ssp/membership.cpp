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
}

const Member* Membership::find(WorkerId worker) const {
  const auto found =
      std::lower_bound(members_.begin(), members_.end(), worker,
                       [](const Member& member, WorkerId id) { return member.worker < id; });
  return found != members_.end() && found->worker == worker ? &*found : nullptr;
}

std::size_t Membership::count_at(Clock clock) const {
  return static_cast<std::size_t>(
      std::count_if(members_.begin(), members_.end(),
                    [clock](const Member& member) { return member.takes_part_at(clock); }));
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
    if (leave != leaves.end()) member.leave = std::min(member.leave, leave->second);
  }
  return changed;
}

}  // namespace taut
