#include "server/replication/image_sender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "common/failpoint.hpp"
#include "proto/config/job_state.hpp"
#include "server/replication/image_parts.hpp"

namespace taut::server {
namespace {

constexpr Duration kCheck = std::chrono::seconds(1);  // between two looks for backups far behind
// Clocks between two images where the backup keeps each update until an image holds it.
constexpr std::uint32_t kMaxInterval = 4;
constexpr std::uint32_t kMaxLoggedIntervals = 4;

std::uint64_t bytes_of(const ImageItem& image) {
  return image.keys.size() + image.values.size() * (1 + image.states.size());
}

std::uint64_t bytes_of(const std::vector<ImageItem>& parts) {
  std::uint64_t bytes = 0;
  for (const ImageItem& part : parts) bytes += bytes_of(part);
  return bytes;
}

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
  std::erase_if(pending_, [&](std::size_t index) { return !tracks_.contains(index); });
  follow_leaves(view.membership);
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
    if (track.copy == 0) continue;
    track.needs_image = track.is_due = true;
    track.needed = 0;
    pending_.insert(index);
  }
}

Clock ImageSender::logged(std::size_t index, WorkerId worker) const {
  if (!logs_updates_) return Clock();
  const auto found = tracks_.find(index);
  const auto newest = found == tracks_.end() ? std::nullopt : found->second.log.newest(worker);
  return newest ? newest->next() : Clock();
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

/// Since when a backup of the shard has owed an answer; nothing: it owes none, or is a new one.
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
  // No worker repeats what a lost member has pushed: its image is sent at once.
  if (copy != 0 && members_ < membership.members().size()) {
    for (const auto& [worker, settled] : slice.settled_members()) {
      const Member* member = membership.find(worker);
      if (member == nullptr || !member->fenced || track.stable[worker] >= settled) continue;
      track.is_due = true;
      pending_.insert(index);
    }
  }
  if (track.term == term && track.copy == copy) return;
  // Without a backup all that is not pending was reported to workers as safe. Images are taken
  // after this moment, so they hold all of it.
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
  // Backups that have images of an earlier primary, or from when there were others, get the next
  // one in its turn: no worker is told before that anything newer were safe.
  const bool continues =
      targets != nullptr && std::ranges::all_of(targets->list, &Target::was_whole);
  const bool is_awaited = slice.is_hidden() || (shows_kept_ && is_first);
  const bool is_urgent = track.is_due || logs_updates_ || is_awaited || !track.waiting.empty();
  track.is_due = copy != 0 && (is_urgent || !continues);
  if (is_new) {
    track.kept_version = slice.version();
    track.kept_applications = slice.applications();
  }
  // What was under way does not count: the next image is due as if it had never been made.
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

/// The backups that have no image yet, where others have one.
BackupSet ImageSender::newcomers_of(const Targets& targets) {
  BackupSet newcomers;
  if (std::ranges::none_of(targets.list, &Target::was_whole)) return newcomers;
  for (std::size_t backup = 0; backup < targets.list.size(); ++backup) {
    if (!targets.list[backup].was_whole) newcomers.add(backup);
  }
  return newcomers;
}

/// New backups get what the slice holds too, which is in no image; without any, updates count at
/// once.
/// is_first  these are the first backups of this primary
void ImageSender::begin_log(Track& track, const SliceState& slice, const Targets* targets,
                            bool is_first) {
  if (targets == nullptr || !logs_updates_) {
    release(track.log.take_all());
    return;
  }
  track.log.begin_anew(targets->list.size());
  // The first image of new backups is made from now on. What others have from an earlier primary,
  // whole or not, may be from before a member left, or lack what was logged here alone; from this
  // one, each has what has counted.
  if (is_first) {
    track.needs_image = std::ranges::any_of(
        targets->list, [&](const Target& target) { return target.choice != targets->copy; });
  }
  track.needed = 0;
  std::vector<UpdateLog::Push> held;
  for (const LoggedUpdate& one : slice.held_updates()) {
    held.push_back({PeerId(), one.worker, Incarnation(), push_of(one)});
  }
  track.log.add_first(std::move(held));
}

void ImageSender::release(std::vector<UpdateLog::Push> pushes) {
  std::ranges::move(pushes, std::back_inserter(released_));
}

bool ImageSender::logs(std::size_t index) const {
  if (!logs_updates_) return false;
  const auto found = tracks_.find(index);
  return found != tracks_.end() && found->second.copy != 0;
}

bool ImageSender::awaits_image(std::size_t index) const {
  const auto found = tracks_.find(index);
  return found != tracks_.end() && found->second.copy != 0 && found->second.needs_image;
}

void ImageSender::log(std::size_t index, UpdateLog::Push push) {
  tracks_.at(index).log.add(std::move(push));
  pending_.insert(index);
}

/// Nothing is left to be sent of a slice.
void ImageSender::rest_if_done(std::size_t index, const Track& track) {
  if (!track.is_due && track.under_way.empty() && track.log.empty()) pending_.erase(index);
}

void ImageSender::hang_up(const Dial& dial) {
  for (const auto& [address, peer] : std::exchange(peers_, {})) {
    if (dial.disconnect) dial.disconnect(peer);
  }
  targets_.clear();
  tracks_.clear();
  pending_.clear();
  changed_.clear();
  released_.clear();
}

/// Whether a slice has yet to apply an update of a lost member that comes before its leave.
/// done  its first update that is not in the values
bool ImageSender::owes_before(const SliceState& slice, Clock leave, Clock done) {
  return slice.next_after(done - 1) < leave;
}

/// Once all that a lost member had pushed before its leave is applied, an image has to say what of
/// it was dropped, before anything that follows counts.
void ImageSender::name_drops(std::size_t index, Track& track, const SliceState& slice) {
  for (const auto& [worker, done] : slice.settled_members()) {
    const auto left = leaves_.find(worker);
    if (left == leaves_.end() || slice.leaves_here(worker)) continue;
    if (owes_before(slice, left->second, done)) return;
  }
  track.names_drops_later = false;
  track.needs_image = track.is_due = true;
  track.needed = 0;
  pending_.insert(index);
}

void ImageSender::note_push(std::size_t index, const SliceState& slice) {
  const auto found = tracks_.find(index);
  if (found == tracks_.end() || found->second.copy == 0) return;
  Track& track = found->second;
  // Where V does not rise, because of a worker that is far behind, the others' updates count.
  const auto applied = static_cast<std::uint64_t>(slice.applications() - track.applications);
  if (track.names_drops_later) name_drops(index, track, slice);
  // The turns of slices differ, so that a clock's images are a part of them.
  const std::int64_t turn = (slice.version().value() + static_cast<std::int64_t>(index)) %
                            static_cast<std::int64_t>(interval_);
  const std::int64_t risen = slice.version() - track.version;
  if (track.lag.is_news(slice.applications())) changed_.push_back(index);
  // Readers wait for it, and the one that is under way may be older.
  const bool is_awaited =
      shows_kept_ && slice.is_hidden() && (risen > 0 || slice.applications() > track.applications);
  if (note_applied(track, slice) || is_awaited || (risen > 0 && turn == 0) || risen >= interval_ ||
      applied >= 2 * interval_ * members_) {
    track.is_due = true;
    pending_.insert(index);
  }
  if (!logs_updates_ || track.needs_image || !is_log_long(track, slice)) return;
  track.needs_image = true;
  // The image that is under way will do.
  track.needed = track.under_way.empty() ? 0 : track.sequence;
  track.is_due |= track.under_way.empty();
  pending_.insert(index);
}

/// Backups keep what is logged until they have an image. While those of a new backup are on their
/// way that may take long: beyond some intervals nothing more counts before.
bool ImageSender::is_log_long(const Track& track, const SliceState& slice) const {
  const auto most = static_cast<std::int64_t>(kMaxLoggedIntervals) * interval_;
  const auto members = static_cast<std::int64_t>(members_);
  return slice.version() - track.kept_version > most ||
         slice.applications() - track.kept_applications > 2 * most * members;
}

void ImageSender::settle(std::size_t index, const SliceState& slice, PeerId peer, WorkerId worker,
                         Clock clock) {
  const auto found = tracks_.find(index);
  if (found == tracks_.end()) return;
  found->second.waiting[worker] = {peer, clock};
  if (!note_applied(found->second, slice)) return;
  found->second.is_due = true;
  pending_.insert(index);
}

/// Whether updates that workers wait for are in the values now and were not before.
bool ImageSender::note_applied(Track& track, const SliceState& slice) {
  bool is_news = false;
  for (auto& [worker, waiting] : track.waiting) {
    if (waiting.is_applied || slice.settled(worker) < waiting.clock) continue;
    is_news = waiting.is_applied = true;
  }
  return is_news && track.copy != 0;
}

bool ImageSender::is_sendable(const Track& track, const Targets& targets, TimePoint now) const {
  constexpr int kMaxDoublings = 6;
  if (!track.under_way.empty()) {
    // An image of many parts takes longer.
    const auto times = static_cast<std::int64_t>(1 + bytes_of(track.under_way) / kUnderWay);
    const Duration again = times * again_;
    return now - track.sent >= (1 << std::min(track.attempts - 1, kMaxDoublings)) * again;
  }
  // A backup is whole only with what the slice has accepted before it was chosen.
  if (!track.is_kept && track.log.lacks_accepted()) return false;
  return track.is_due && std::ranges::all_of(targets.list, [](const Target& target) {
           return target.under_way < kUnderWay;
         });
}

std::vector<ImageItem> ImageSender::make_image(SliceState& slice, Track& track) const {
  const SliceImage image = slice.image();
  ImageItem item;
  item.table = image.place.table;
  item.slice = image.place.slice;
  item.sequence = ++track.sequence;
  item.version = image.version;
  item.applications = image.applications;
  item.done = image.done;
  // What waits and is past its worker's leave will be dropped. After a take-over, the log has of a
  // worker that was lost before only what the slice holds, where it leaves behind that.
  for (const auto& [worker, leave] : leaves_) {
    const auto done = item.done.find(worker);
    if (done == item.done.end() || slice.leaves_here(worker)) continue;
    // Backups keep what is in their log and not in the values: also what counts, before its leave.
    if (owes_before(slice, leave, done->second)) {
      track.names_drops_later = true;
      continue;
    }
    const Clock logged = track.log.newest(worker).value_or(Clock(-1)).next();
    if (logged > leave) done->second = std::max(done->second, logged);
  }
  std::vector<ImageItem> parts;
  if (slice.rows() != nullptr) {
    const RowChanges changes = slice.take_row_changes(std::exchange(track.is_whole_due, true));
    if (!changes.is_whole) item.base = item.sequence - 1;
    parts = in_parts(std::move(item), changes, slice.rows()->width(), slice.states());
    track.is_whole_due = false;
  } else {
    item.values = Frame(image.values);
    for (const Buffer& state : image.states) item.states.emplace_back(state);
    parts.push_back(std::move(item));
  }
  if (track.needs_image && track.needed == 0) track.needed = track.sequence;
  track.is_due = false;
  track.lag.note_image(image.applications);
  track.version = image.version;
  track.applications = image.applications;
  return parts;
}

namespace {

/// A batch as messages that a shard takes in: each has enough bytes, and the last one what is left.
std::vector<DataImages> in_messages(DataImages batch) {
  constexpr std::uint64_t kTargetBytes = 2ULL << 20U;
  std::vector<DataImages> messages;
  std::uint64_t bytes = kTargetBytes;
  const auto next = [&](std::uint64_t more) -> DataImages& {
    if (bytes >= kTargetBytes || messages.back().images.size() >= DataImages::kMaxImages) {
      messages.push_back({batch.shard, batch.term, batch.copy, batch.tables, {}, {}});
      bytes = 0;
    }
    bytes += more;
    return messages.back();
  };
  if (batch.images.empty() && batch.logged.empty()) next(0);
  for (ImageItem& image : batch.images) {
    next(bytes_of(image)).images.push_back(std::move(image));
  }
  for (LoggedUpdate& one : batch.logged) {
    next(one.update.gradient.size()).logged.push_back(std::move(one));
  }
  return messages;
}

}  // namespace

bool ImageSender::add(Track& track, Targets& targets, SliceState& slice,
                      std::vector<DataImages>& batches, TimePoint now) {
  const bool is_full = std::ranges::any_of(
      batches, [](const auto& batch) { return batch.images.size() >= DataImages::kMaxImages; });
  if (is_full || !is_sendable(track, targets, now)) return false;
  if (track.under_way.empty()) {
    try {
      track.under_way = make_image(slice, track);
    } catch (const std::bad_alloc&) {
      return false;  // later, when readers have let memory go
    }
    track.attempts = 0;
    track.begun = now;
    // Readers wait until each backup has it.
    if (slice.is_hidden()) track.newcomers = BackupSet();
    track.lacking =
        track.newcomers.empty() ? BackupSet::first(targets.list.size()) : track.newcomers;
    for (std::size_t backup = 0; backup < targets.list.size(); ++backup) {
      if (track.lacking.has(backup)) targets.list[backup].under_way += bytes_of(track.under_way);
    }
  }
  for (std::size_t backup = 0; backup < batches.size(); ++backup) {
    if (!track.lacking.has(backup)) continue;
    // The same image again: a newer one would make the reply to this one worthless.
    auto& images = batches[backup].images;
    images.insert(images.end(), track.under_way.begin(), track.under_way.end());
  }
  track.sent = now;
  ++track.attempts;
  return true;
}

/// Slices that hold more than their newest images, and those with new backups.
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
  std::map<ShardId, std::size_t> first;  // of a shard's backups
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

std::vector<Outgoing> ImageSender::take_outgoing(const std::vector<TableSpec>& tables,
                                                 const JobSlices& slices, TimePoint now) {
  std::vector<Outgoing> out;
  note_changes(slices, now);
  if (targets_.empty()) return out;
  std::map<ShardId, std::vector<DataImages>> batches;  // for each backup
  for (const auto& [shard, targets] : targets_) batches[shard].resize(targets.list.size());
  std::map<ShardId, std::uint64_t> logged;  // bytes on their way
  for (const std::size_t index : pending_) {
    const Track& track = tracks_.at(index);
    logged[track.shard] += track.log.under_way();
  }
  // From the slice whose turn it is on, so that each has one where not all can be sent.
  const auto first = pending_.lower_bound(next_);
  const auto visit = [&](auto from, auto to) {
    for (auto entry = from; entry != to; ++entry) {
      Track& track = tracks_.at(*entry);
      const auto targets = targets_.find(track.shard);
      if (targets == targets_.end()) continue;
      if ((track.is_due || !track.under_way.empty()) && !track.behind_since) {
        track.behind_since = now;
      }
      auto& of_shard = batches.at(track.shard);
      if (add(track, targets->second, *slices.at(*entry), of_shard, now)) next_ = *entry + 1;
      track.log.send(of_shard, logged[track.shard], now, again_);
    }
  };
  visit(first, pending_.end());
  visit(pending_.begin(), first);
  for (auto& [shard, of_shard] : batches) {
    for (std::size_t backup = 0; backup < of_shard.size(); ++backup) {
      send(shard, backup, std::move(of_shard[backup]), tables, now, out);
    }
  }
  return out;
}

void ImageSender::send(ShardId shard, std::size_t backup, DataImages batch,
                       const std::vector<TableSpec>& tables, TimePoint now,
                       std::vector<Outgoing>& out) {
  const Targets& targets = targets_.at(shard);
  Target& target = targets_.at(shard).list[backup];
  // Where there are fewer slices than shards, the backup learns that it has them all.
  const bool is_silent = !target.requested || now - *target.requested >= again_;
  const bool requests = !tables.empty() && !target.knows_tables && is_silent;
  if (batch.images.empty() && batch.logged.empty() && !requests) return;
  target.requested = now;
  batch.shard = shard;
  batch.term = targets.term;
  batch.copy = targets.copy;
  if (!target.knows_tables) {
    for (const TableSpec& table : tables) batch.tables.push_back(to_wire(table));
  }
  for (DataImages& message : in_messages(std::move(batch))) {
    out.push_back({target.peer, DataMessage{job_, WorkerId(), Incarnation(), std::move(message)}});
  }
  failpoint("image made");
}

TimePoint ImageSender::lacks_since(const Track& track, const Targets& targets, std::size_t backup) {
  TimePoint since = TimePoint::never();
  // What is not under way yet waits for those that have not acknowledged others.
  const bool waits = track.under_way.empty() &&
                     (targets.list.size() == 1 || targets.list[backup].under_way >= kUnderWay);
  if (track.behind_since && (waits || track.lacking.has(backup))) since = *track.behind_since;
  since = std::min(since, track.log.lacks_since(backup));
  // A new backup may take longer, while it takes images.
  const bool is_new = !track.is_kept && since != TimePoint::never();
  return is_new ? std::max(since, targets.list[backup].last_heard.value_or(TimePoint())) : since;
}

bool ImageSender::check(TimePoint now) {
  if (limit_ == Duration::max() || now < next_check_) return false;
  if (now - next_check_ > limit_ / 2) {
    // This process did not run, or the job has just begun.
    for (auto& [index, track] : tracks_) {
      if (track.behind_since) track.behind_since = now;
      track.log.excuse(now);
    }
    for (auto& [shard, targets] : targets_) {
      for (Target& target : targets.list) target.owes_since.reset();
    }
  }
  next_check_ = now + std::min(limit_ / 4, kCheck);
  // Of what a shard's backup does not have.
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
        // Nothing is asked of it now: what was before counts no longer.
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

/// A backup has an image of a slice, or (sequence 0) cannot use the one that is under way.
void ImageSender::take_kept(std::size_t index, Track& track, Targets& targets, std::size_t backup,
                            std::uint64_t sequence, std::vector<Settled>& settled) {
  if (track.under_way.empty() || !track.lacking.has(backup)) return;
  const ImageItem& image = track.under_way.front();
  // The backup does not have what this one continues.
  const bool cannot = sequence == 0 && image.base != 0;
  if (!cannot && sequence != image.sequence) return;
  const auto end_for = [&](std::size_t one) {
    if (!track.lacking.has(one)) return;
    track.lacking.remove(one);
    Target& target = targets.list[one];
    target.under_way -= std::min(target.under_way, bytes_of(track.under_way));
  };
  if (cannot) {
    for (std::size_t one = 0; one < targets.list.size(); ++one) end_for(one);
    track.under_way.clear();
    track.is_due = track.is_whole_due = true;
    return;
  }
  end_for(backup);
  track.lag.note_kept(targets.list[backup].choice, image.version);
  if (track.lacking.empty()) note_kept(index, track, settled);
}

/// The image that was under way has arrived.
void ImageSender::note_kept(std::size_t index, Track& track, std::vector<Settled>& settled) {
  const bool all_have_it = track.newcomers.empty();
  if (all_have_it) {
    note_stable(index, track, settled);
  } else {
    // The other backups' images are older. The next one is for all, and in its turn.
    track.newcomers = BackupSet();
    track.is_whole_due = true;
    track.version = track.kept_version;
    track.applications = track.kept_applications;
  }
  track.under_way.clear();
  track.is_kept = true;
  // What has changed since that image was first sent.
  track.behind_since.reset();
  if (track.is_due) track.behind_since = track.begun;
  // A worker that still waits needs another image.
  track.is_due |= std::ranges::any_of(
      track.waiting, [](const auto& waiting) { return waiting.second.is_applied; });
  rest_if_done(index, track);
}

/// Each backup has the image that was under way.
void ImageSender::note_stable(std::size_t index, Track& track, std::vector<Settled>& settled) {
  const ImageItem& image = track.under_way.front();
  track.kept_version = image.version;
  track.kept_applications = image.applications;
  track.shown = {image.version, image.applications};
  for (const auto& [worker, done] : image.done) {
    Clock& stable = track.stable[worker];
    stable = std::max(stable, done);
  }
  if (track.needs_image && track.needed != 0 && image.sequence >= track.needed) {
    track.needs_image = false;
    release(track.log.take_kept());
  }
  std::erase_if(track.waiting, [&](const auto& waiting) {
    if (track.stable[waiting.first] < waiting.second.clock) return false;
    settled.push_back({index, waiting.second.peer, waiting.first});
    return true;
  });
}

std::vector<ImageSender::Settled> ImageSender::take_reply(
    PeerId from, const pb::SliceImagesReply& reply,
    const std::function<std::optional<std::size_t>(TableId, SliceId)>& index_of, TimePoint now) {
  std::vector<Settled> settled;
  const auto found = targets_.find(ShardId(reply.shard()));
  if (found == targets_.end()) return settled;
  Targets& targets = found->second;
  const auto of_peer = std::ranges::find(targets.list, from, &Target::peer);
  if (of_peer == targets.list.end() || reply.term() != targets.term) return settled;
  Target& target = *of_peer;
  // Whatever it says, it answers.
  target.owes_since.reset();
  if (reply.copy() != targets.copy) return settled;
  const auto backup = static_cast<std::size_t>(of_peer - targets.list.begin());
  target.knows_tables = true;
  target.last_heard = now;
  for (const pb::SliceImagesReply::Kept& kept : reply.kept()) {
    const auto index = index_of(TableId(kept.table()), SliceId(kept.slice()));
    const auto entry = index ? tracks_.find(*index) : tracks_.end();
    if (entry == tracks_.end() || entry->second.shard != found->first) continue;
    take_kept(*index, entry->second, targets, backup, kept.sequence(), settled);
  }
  for (const pb::SliceImagesReply::Logged& one : reply.logged()) {
    const auto index = index_of(TableId(one.table()), SliceId(one.slice()));
    const auto entry = index ? tracks_.find(*index) : tracks_.end();
    if (entry == tracks_.end() || entry->second.shard != found->first) continue;
    Track& track = entry->second;
    track.log.note_kept(backup, WorkerId(one.worker()), Clock(one.clock()));
    if (!track.needs_image) release(track.log.take_kept());
    rest_if_done(*index, track);
  }
  return settled;
}

KeptImage ImageSender::kept(std::size_t index) const {
  const auto found = tracks_.find(index);
  if (found == tracks_.end() || found->second.copy == 0) return {};
  return found->second.shown;
}

Clock ImageSender::stable(std::size_t index, WorkerId worker, const SliceState& slice) const {
  const auto found = tracks_.find(index);
  if (found == tracks_.end() || found->second.copy == 0) return slice.settled(worker);
  const auto stable = found->second.stable.find(worker);
  return stable == found->second.stable.end() ? Clock() : stable->second;
}

}  // namespace taut::server
