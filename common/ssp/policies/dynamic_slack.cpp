#include "common/ssp/policies/dynamic_slack.hpp"

#include <algorithm>
#include <chrono>

namespace taut {

std::int64_t extra_clocks(PushTimes fastest, PushTimes slowest, std::int64_t max_extra) {
  std::int64_t best = 0;
  Duration best_gap = Duration::max();
  for (std::int64_t extra = 0; extra <= max_extra; ++extra) {
    const TimePoint ready = fastest.latest + fastest.interval * extra;
    // Only the slowest worker's pushes just before and after `ready` can be the nearest.
    const std::int64_t passed =
        slowest.interval > Duration(0) ? (ready - slowest.latest) / slowest.interval : max_extra;
    for (const std::int64_t near : {passed, passed + 1}) {
      const std::int64_t push = std::clamp<std::int64_t>(near, 1, max_extra + 1);
      const Duration gap = std::chrono::abs((slowest.latest + slowest.interval * push) - ready);
      if (gap >= best_gap) continue;
      best_gap = gap;
      best = extra;
    }
  }
  return best;
}

void DynamicSlack::set_members(const Membership& membership) {
  for (const Member& member : membership.members()) {
    const auto [entry, added] = members_.try_emplace(member.worker);
    Progress& progress = entry->second;
    if (added) progress.done = member.join;
    progress.counts = !member.fenced && progress.done < member.leave;
  }
}

void DynamicSlack::note_push(WorkerId worker, Clock clock, TimePoint now) {
  const auto found = members_.find(worker);
  if (found == members_.end() || clock < found->second.done) return;
  Progress& progress = found->second;
  progress.done = clock.next();
  progress.before = progress.latest;
  progress.latest = now;
}

Slack DynamicSlack::slack_of_read(WorkerId worker, Clock clock, Slack /*set*/) {
  const auto found = members_.find(worker);
  const Progress* slow = slowest();
  if (found == members_.end() || slow == nullptr) return range_.min;
  Progress& own = found->second;
  if (own.grant && clock <= own.grant->until) return own.grant->slack;
  const std::int64_t lead = clock - slow->done;
  if (lead <= range_.min.clocks()) return range_.min;
  const bool is_fastest = std::ranges::all_of(members_, [&](const auto& entry) {
    return !entry.second.counts || entry.second.done <= own.done;
  });
  const auto fast_times = times_of(own);
  const auto slow_times = times_of(*slow);
  // If the slowest is so far behind that one more clock would exceed the range, no worker
  // continues.
  const std::int64_t max_extra = range_.max.clocks() - lead + 1;
  if (!is_fastest || !fast_times || !slow_times || max_extra <= 0) return range_.min;
  const std::int64_t extra = extra_clocks(*fast_times, *slow_times, max_extra);
  if (extra == 0) return range_.min;
  own.grant = Grant{clock + (extra - 1), Slack(lead + extra - 1)};
  return own.grant->slack;
}

std::optional<Slack> DynamicSlack::moving() const {
  Slack largest = range_.min;
  for (const auto& [worker, progress] : members_) {
    const bool granted =
        progress.counts && progress.grant && progress.done <= progress.grant->until;
    if (granted) largest = std::max(largest, progress.grant->slack);
  }
  return largest;
}

std::optional<PushTimes> DynamicSlack::times_of(const Progress& progress) const {
  if (!progress.before) return std::nullopt;
  return PushTimes{*progress.latest, *progress.latest - *progress.before};
}

const DynamicSlack::Progress* DynamicSlack::slowest() const {
  const Progress* lowest = nullptr;
  for (const auto& [worker, progress] : members_) {
    if (progress.counts && (lowest == nullptr || progress.done < lowest->done)) lowest = &progress;
  }
  return lowest;
}

}  // namespace taut
