// How far backups are behind, and whether further than the job allows.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "server/replication/image_sender.hpp"

namespace taut::server {
namespace {

constexpr Duration kCheck = std::chrono::seconds(1);  // between two checks for backups far behind

}  // namespace

/// Notes the slices that have more than their newest images, and those with new backups.
void ImageSender::note_changes(const JobSlices& slices, TimePoint now) {
  for (const std::size_t index : std::exchange(changed_, {})) {
    const auto found = tracks_.find(index);
    if (found == tracks_.end()) continue;
    Track& track = found->second;
    const auto targets = targets_.find(track.shard);
    if (targets == targets_.end()) continue;
    for (const Target& target : targets->second.list) {
      track.lag.add(target.choice, target.was_whole ? track.kept_version : Clock(), now);
    }
    if (track.lag.is_news(slices.at(index)->applications())) track.lag.note_change(now);
  }
}

std::vector<BackupLag> ImageSender::lags(const JobSlices& slices, TimePoint now) const {
  std::vector<BackupLag> lags;
  std::map<ShardId, std::size_t> first;  // index of a shard's first backup in `lags`
  for (const auto& [shard, targets] : targets_) {
    first[shard] = lags.size();
    for (const Target& target : targets.list) {
      lags.push_back({job_, shard, targets.term, target.choice, {}, 0});
    }
  }
  for (const auto& [index, track] : tracks_) {
    const auto targets = targets_.find(track.shard);
    const std::size_t backups = targets == targets_.end() ? 0 : targets->second.list.size();
    for (std::size_t backup = 0; backup < backups; ++backup) {
      BackupLag& lag = lags[first.at(track.shard) + backup];
      TimePoint since = track.log.lacks_since(backup);
      const SliceLag::Held* held = track.lag.find(lag.choice);
      // What is logged counts once the backup has it, in an image or not.
      const bool has_all =
          held == nullptr || !held->lacks_since || (logs_updates_ && held->is_kept);
      if (!has_all) {
        since = std::min(since, *held->lacks_since);
        lag.clocks = std::max(lag.clocks, slices.at(index)->version() - held->version);
      }
      if (since < now) lag.time = std::max(lag.time, now - since);
    }
  }
  return lags;
}

TimePoint ImageSender::lacks_since(const Track& track, const Targets& targets, std::size_t backup) {
  TimePoint since = TimePoint::never();
  // An image that is not in flight yet waits for backups that have not acknowledged others.
  const bool waits =
      track.under_way.empty() &&
      (targets.list.size() == 1 || targets.list[backup].under_way >= kMaxBytesInFlight);
  if (track.behind_since && (waits || track.lacking.has(backup))) since = *track.behind_since;
  since = std::min(since, track.log.lacks_since(backup));
  // A new backup may take longer as long as it keeps accepting images.
  const bool is_new = !track.is_kept && since != TimePoint::never();
  return is_new ? std::max(since, targets.list[backup].last_heard.value_or(TimePoint())) : since;
}

bool ImageSender::check(TimePoint now) {
  if (limit_ == Duration::max() || now < next_check_) return false;
  if (now - next_check_ > limit_ / 2) {
    // This process was suspended, or the job has just begun.
    for (auto& [index, track] : tracks_) {
      if (track.behind_since) track.behind_since = now;
      track.log.excuse(now);
    }
    for (auto& [shard, targets] : targets_) {
      for (Target& target : targets.list) target.owes_since.reset();
    }
  }
  next_check_ = now + std::min(limit_ / 4, kCheck);
  // Since when each backup of a shard has lacked something.
  std::map<std::pair<ShardId, std::size_t>, TimePoint> oldest;
  for (const std::size_t index : pending_) {
    const Track& track = tracks_.at(index);
    const auto targets = targets_.find(track.shard);
    const std::size_t backups = targets == targets_.end() ? 0 : targets->second.list.size();
    for (std::size_t backup = 0; backup < backups; ++backup) {
      const TimePoint since = lacks_since(track, targets->second, backup);
      TimePoint& entry = oldest.try_emplace({track.shard, backup}, since).first->second;
      entry = std::min(entry, since);
    }
  }
  std::vector<Problem> problems;
  for (auto& [shard, targets] : targets_) {
    for (std::size_t backup = 0; backup < targets.list.size(); ++backup) {
      Target& target = targets.list[backup];
      const auto found = oldest.find({shard, backup});
      const TimePoint lacks = found == oldest.end() ? TimePoint::never() : found->second;
      if (lacks == TimePoint::never()) {
        // It owes nothing now: earlier delays no longer count.
        target.owes_since.reset();
        continue;
      }
      if (now - std::min(lacks, target.owes_since.value_or(lacks)) < limit_) continue;
      problems.push_back({shard, targets.term, target.choice,
                          target.last_heard
                              ? fmt::format("it is more than {:g} s behind", seconds(limit_))
                              : fmt::format("it has not answered for {:g} s", seconds(limit_))});
    }
  }
  const auto same = [](const Problem& a, const Problem& b) {
    return a.shard == b.shard && a.choice == b.choice && a.term == b.term;
  };
  const bool is_news = !std::ranges::equal(problems, problems_, same);
  problems_ = std::move(problems);
  return is_news;
}

}  // namespace taut::server
