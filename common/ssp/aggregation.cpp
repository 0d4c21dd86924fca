#include "common/ssp/aggregation.hpp"

#include <algorithm>

namespace taut {
namespace {

/// How many of these take part at a clock.
std::size_t count_members(const std::vector<WorkerId>& workers, Clock clock,
                          const Membership& membership) {
  return static_cast<std::size_t>(std::ranges::count_if(workers, [&](WorkerId worker) {
    const Member* member = membership.find(worker);
    return member != nullptr && member->takes_part_at(clock);
  }));
}

}  // namespace

std::optional<Application> ModeAggregation::next(const HeldUpdates& held,
                                                 const Membership& membership) const {
  for (const auto& entry : held) {
    const Clock clock = entry.first;
    const auto& workers = entry.second;
    const std::size_t members = membership.count_at(clock);
    if (membership.mode_at(clock) == ApplyMode::kOnArrival) {
      return Application{clock, {workers.front()}, members};
    }
    const std::size_t pushed = count_members(workers, clock, membership);
    if (pushed == members && members > 0) return Application{clock, workers, members};
    // Clocks are aggregated in order; a later one waits for this one.
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Application> BackupAggregation::next(const HeldUpdates& held,
                                                   const Membership& membership) const {
  if (held.empty()) return std::nullopt;
  const auto& [clock, workers] = *held.begin();
  const std::size_t members = membership.count_at(clock);
  const std::size_t pushed = count_members(workers, clock, membership);
  if (members == 0 || pushed < quorum_of(members, backup_workers_)) return std::nullopt;
  return Application{clock, workers, workers.size()};
}

}  // namespace taut
