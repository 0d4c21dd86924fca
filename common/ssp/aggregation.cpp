#include "common/ssp/aggregation.hpp"

#include <algorithm>

namespace taut {

std::optional<Application> ModeAggregation::next(const HeldUpdates& held,
                                                 const Membership& membership) const {
  for (const auto& entry : held) {
    const Clock clock = entry.first;
    const auto& workers = entry.second;
    const std::size_t members = membership.count_at(clock);
    if (membership.mode_at(clock) == ApplyMode::kOnArrival) {
      return Application{clock, {workers.front()}, members};
    }
    const auto here = static_cast<std::size_t>(
        std::count_if(workers.begin(), workers.end(), [&](WorkerId worker) {
          const Member* member = membership.find(worker);
          return member != nullptr && member->takes_part_at(clock);
        }));
    if (here == members && members > 0) return Application{clock, workers, members};
    // Clocks are aggregated in order; a later one waits for this one.
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace taut
