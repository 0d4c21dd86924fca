// What a new view of a job changes for its images: which backups exist, and which images of each
// slice they get.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "server/replication/image_sender.hpp"
#include "server/tables/row_allowance.hpp"

namespace taut::server {
namespace {

// The most clocks between two images if backups keep each update until an image contains it.
constexpr std::uint32_t kMaxInterval = 4;

}  // namespace

void ImageSender::follow(const JobView& view, ShardId host, const JobSlices& slices,
                         const Dial& dial) {
  job_ = view.job;
  logs_updates_ = view.logs_updates;
  shows_kept_ = view.shows_kept();
  interval_ =
      logs_updates_ ? std::min(view.replication_interval, kMaxInterval) : view.replication_interval;
  limit_ = view.backup_limit;
  again_ = dial.again;
  follow_targets(view, host, dial);
  members_ = static_cast<std::size_t>(
      std::ranges::count(view.membership.members(), false, &Member::fenced));
  std::erase_if(tracks_, [&](const auto& entry) { return !slices.contains(entry.first); });
  for (const auto& [index, slice] : slices) follow_slice(index, *slice, view.membership);
  follow_log_room(slices);
  std::erase_if(pending_, [&](std::size_t index) { return !tracks_.contains(index); });
  follow_leaves(view.membership);
}

/// Recounts what backups keep of each table by rows, over its current buckets.
void ImageSender::follow_log_room(const JobSlices& slices) {
  row_log_room_.clear();
  for (const auto& [index, slice] : slices) {
    Track& track = tracks_.at(index);
    track.room = nullptr;
    if (!logs(index) || slice->allowance() == nullptr) continue;
    const auto place = std::pair(track.shard, slice->place().table);
    const LogRoom empty(slice->allowance()->max_unsaved());
    track.room = &row_log_room_.try_emplace(place, empty).first->second;
    track.room->add(track.counted);
  }
}

void ImageSender::follow_leaves(const Membership& membership) {
  std::map<WorkerId, Clock> leaves;
  for (const Member& member : membership.members()) {
    if (member.fenced && member.leave != Clock::never()) leaves[member.worker] = member.leave;
  }
  const bool is_news = std::ranges::any_of(
      leaves, [&](const auto& leave) { return !leaves_.contains(leave.first); });
  leaves_ = std::move(leaves);
  if (!is_news || !logs_updates_) return;
  for (auto& [index, track] : tracks_) {
    std::erase_if(track.logged_until,
                  [&](const auto& logged) { return !leaves_.contains(logged.first); });
    if (track.copy == 0) continue;
    track.needs_image = track.is_due = true;
    track.needed = 0;
    pending_.insert(index);
  }
}

void ImageSender::follow_targets(const JobView& view, ShardId host, const Dial& dial) {
  std::map<ShardId, Targets> targets;
  for (const ShardPlace& place : view.places) {
    if (interval_ == 0 || place.host != host || place.backups.empty() || !dial.connect) continue;
    const auto known = targets_.find(place.shard);
    if (known != targets_.end() && known->second.copy == place.copy &&
        known->second.term == place.term) {
      targets.insert(targets_.extract(known));
      continue;
    }
    targets[place.shard] = make_targets(place, dial);
  }
  targets_ = std::move(targets);
  std::set<PeerId> used;
  for (const auto& [shard, of_shard] : targets_) {
    for (const Target& target : of_shard.list) used.insert(target.peer);
  }
  std::erase_if(peers_, [&](const auto& entry) {
    const bool is_used = used.contains(entry.second);
    if (!is_used && dial.disconnect) dial.disconnect(entry.second);
    return !is_used;
  });
}

ImageSender::Targets ImageSender::make_targets(const ShardPlace& place, const Dial& dial) {
  Targets targets{place.term, place.copy, {}};
  for (const ShardBackup& backup : place.backups) {
    const auto [peer, is_new] = peers_.try_emplace(backup.address);
    if (is_new) peer->second = dial.connect(backup.address);
    Target& target = targets.list.emplace_back();
    target.choice = backup.choice;
    target.was_whole = backup.is_whole;
    target.peer = peer->second;
    target.owes_since = owed_since(place.shard, backup.choice);
  }
  return targets;
}

/// Since when a backup of the shard has owed an answer; nullopt if it owes none, or is a new one.
std::optional<TimePoint> ImageSender::owed_since(ShardId shard, std::uint64_t choice) const {
  const auto known = targets_.find(shard);
  if (known == targets_.end()) return std::nullopt;
  const Targets& targets = known->second;
  const auto target = std::ranges::find(targets.list, choice, &Target::choice);
  if (target == targets.list.end()) return std::nullopt;
  const auto backup = static_cast<std::size_t>(target - targets.list.begin());
  TimePoint since = target->owes_since.value_or(TimePoint::never());
  for (const std::size_t index : pending_) {
    const auto track = tracks_.find(index);
    if (track == tracks_.end() || track->second.shard != shard) continue;
    since = std::min(since, lacks_since(track->second, targets, backup));
  }
  return since == TimePoint::never() ? std::nullopt : std::optional(since);
}

void ImageSender::follow_slice(std::size_t index, const SliceState& slice,
                               const Membership& membership) {
  const auto [entry, is_new] = tracks_.try_emplace(index);
  Track& track = entry->second;
  track.shard = slice.place().shard;
  std::erase_if(track.waiting,
                [&](const auto& waiting) { return membership.find(waiting.first) == nullptr; });
  const auto found = targets_.find(track.shard);
  const Targets* targets = found == targets_.end() ? nullptr : &found->second;
  const std::uint64_t term = targets == nullptr ? 0 : targets->term;
  const std::uint64_t copy = targets == nullptr ? 0 : targets->copy;
  // No worker repeats what a lost member has pushed: an image with it is sent at once.
  if (copy != 0 && members_ < membership.members().size()) {
    for (const auto& [worker, settled] : slice.settled_members()) {
      const Member* member = membership.find(worker);
      if (member == nullptr || !member->fenced || track.stable[worker] >= settled) continue;
      track.is_due = true;
      pending_.insert(index);
    }
  }
  if (track.term == term && track.copy == copy) return;
  // Without a backup, everything that is not pending was reported to workers as safe. Images are
  // taken after this moment, so they contain all of it.
  if (!is_new && track.copy == 0) track.stable = slice.settled_members();
  const bool is_first = is_new || track.copy == 0 || track.term != term;
  const bool continues_lag = track.term == term && targets != nullptr;
  track.lag.remove_if([&](std::uint64_t choice) {
    return !continues_lag ||
           std::ranges::find(targets->list, choice, &Target::choice) == targets->list.end();
  });
  changed_.push_back(index);
  track.term = term;
  track.copy = copy;
  // Backups that have images from an earlier primary, or from an earlier set of backups, get the
  // next one in its turn: nothing newer is reported to a worker as safe before.
  const bool continues =
      targets != nullptr && std::ranges::all_of(targets->list, &Target::was_whole);
  const bool is_awaited = slice.is_hidden() || (shows_kept_ && is_first);
  const bool is_urgent = track.is_due || logs_updates_ || is_awaited || !track.waiting.empty();
  track.is_due = copy != 0 && (is_urgent || !continues);
  if (is_new) {
    track.kept_version = slice.version();
    track.kept_applications = slice.applications();
  }
  // An image that was in flight does not count: the next one is due as if it had never been made.
  track.version = track.kept_version;
  track.applications = track.kept_applications;
  track.newcomers = targets == nullptr || is_urgent ? BackupSet() : newcomers_of(*targets);
  track.under_way.clear();
  track.lacking = BackupSet();
  track.behind_since.reset();
  track.is_kept = false;
  track.is_whole_due = true;
  begin_log(track, slice, targets, is_first);
  if (track.is_due) pending_.insert(index);
}

/// The backups that have no image yet, if others have one.
BackupSet ImageSender::newcomers_of(const Targets& targets) {
  BackupSet newcomers;
  if (std::ranges::none_of(targets.list, &Target::was_whole)) return newcomers;
  for (std::size_t backup = 0; backup < targets.list.size(); ++backup) {
    if (!targets.list[backup].was_whole) newcomers.add(backup);
  }
  return newcomers;
}

/// Restarts the log. New backups also get the updates that the slice holds, which are in no image;
/// without backups, updates count at once.
/// is_first  these are the first backups of this primary
void ImageSender::begin_log(Track& track, const SliceState& slice, const Targets* targets,
                            bool is_first) {
  if (targets == nullptr || !logs_updates_) {
    track.counted = {};
    release(track.log.take_all());
    return;
  }
  track.log.reset(targets->list.size());
  // The first image for new backups is made from now on. What others have from an earlier primary,
  // complete or not, may be from before a member left, or lack what was logged only here; from this
  // primary, each has what has counted.
  if (is_first) {
    track.needs_image = std::ranges::any_of(
        targets->list, [&](const Target& target) { return target.choice != targets->copy; });
  }
  track.needed = 0;
  std::vector<UpdateLog::Push> held;
  std::uint64_t held_bytes = 0;
  for (const LoggedUpdate& one : slice.held_updates()) {
    held.push_back({PeerId(), one.worker, Incarnation(), push_of(one)});
    held_bytes += RowAllowance::bytes_of(one.update);
  }
  // Backups from before may keep more until their next image.
  if (is_first) track.counted = {held_bytes, held_bytes, 0};
  track.log.add_first(std::move(held));
}

void ImageSender::hang_up(const Dial& dial) {
  for (const auto& [address, peer] : std::exchange(peers_, {})) {
    if (dial.disconnect) dial.disconnect(peer);
  }
  targets_.clear();
  tracks_.clear();
  row_log_room_.clear();
  pending_.clear();
  changed_.clear();
  released_.clear();
  one_by_one_.clear();
  wait_for_room_.clear();
}

}  // namespace taut::server
