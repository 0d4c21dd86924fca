#include "server/coordinator/store/roster.hpp"

namespace taut {

Roster::Roster(const pb::StoredJob& stored) {
  std::vector<bool> taken(stored.slots());
  const auto take = [&taken](std::uint32_t slot) {
    if (slot < taken.size()) taken[slot] = true;
  };
  for (const std::uint32_t slot : stored.former().finished_slots()) take(slot);
  for (int i = 0; i < stored.members_size(); ++i) {
    const pb::StoredMember& one = stored.members(i);
    const bool leaves = one.member().leave_clock() != Clock::never().value();
    if (!one.finished() && !one.lost()) ++working_;
    if (!one.finished() && !one.lost() && !one.leaves()) ++staying_;
    if (one.finished()) ++finished_;
    if (one.lost() && !leaves) ++leaving_;
    if (leaves && !one.past()) ++left_;
    if (one.past()) ++past_;
    if (!one.lost() || one.finished()) take(one.member().slot());
    newest_[one.member().incarnation()] = i;
  }
  for (std::uint32_t slot = 0; slot < taken.size(); ++slot) {
    if (!taken[slot]) free_slots_.push_back(slot);
  }
}

int Roster::find(Incarnation incarnation) const {
  const auto found = newest_.find(incarnation.value());
  return found == newest_.end() ? -1 : found->second;
}

}  // namespace taut
