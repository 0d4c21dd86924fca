#include "common/ssp/aggregation.hpp"

#include <algorithm>

namespace taut {
namespace {

/// How many of these workers take part at a clock.
std::size_t count_members(const std::vector<WorkerId>& workers, Clock clock,
                          const Membership& membership) {
  return static_cast<std::size_t>(std::ranges::count_if(workers, [&](WorkerId worker) {
    const Member* member = membership.find(worker);
    return member != nullptr && member->takes_part_at(clock);
  }));
}

/// The updates of one clock as one.
Application application_of(Clock clock, const std::vector<WorkerId>& workers, std::size_t members) {
  Application application{{}, members};
  for (const WorkerId worker : workers) application.updates.push_back({clock, worker});
  return application;
}

}  // namespace

std::optional<Application> ModeAggregation::next(const HeldUpdates& held,
                                                 const Membership& membership,
                                                 Patience /*patience*/) const {
  if (held.empty()) return std::nullopt;
  const auto& [clock, workers] = *held.begin();
  const std::size_t members = membership.count_at(clock);
  if (membership.mode_at(clock) == ApplyMode::kOnArrival) {
    return application_of(clock, {workers.front()}, members);
  }
  // Clocks are aggregated in order; a later one waits for this one.
  if (workers.size() < members) return std::nullopt;
  const std::size_t pushed = count_members(workers, clock, membership);
  if (pushed != members || members == 0) return std::nullopt;
  return application_of(clock, workers, members);
}

std::optional<Application> BackupAggregation::next(const HeldUpdates& held,
                                                   const Membership& membership,
                                                   Patience /*patience*/) const {
  if (held.empty()) return std::nullopt;
  const auto& [clock, workers] = *held.begin();
  const std::size_t members = membership.count_at(clock);
  const std::size_t quorum = quorum_of(members, backup_workers_);
  if (members == 0 || workers.size() < quorum) return std::nullopt;
  if (count_members(workers, clock, membership) < quorum) return std::nullopt;
  return application_of(clock, workers, workers.size());
}

std::optional<Application> BufferedAggregation::next(const HeldUpdates& held,
                                                     const Membership& /*membership*/,
                                                     Patience patience) const {
  Application application{{}, size_};
  for (const auto& [clock, workers] : held) {
    if (is_seeded_ && clock == Clock(0)) return application_of(clock, {workers.front()}, 1);
    for (const WorkerId worker : workers) {
      application.updates.push_back({clock, worker});
      if (application.updates.size() == size_) return application;
    }
  }
  if (patience == Patience::kWaits || application.updates.empty()) return std::nullopt;
  return application;
}

}  // namespace taut
