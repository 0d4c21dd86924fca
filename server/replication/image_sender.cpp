#include "server/replication/image_sender.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "server/tables/row_allowance.hpp"

namespace taut::server {
namespace {

// Backups keep what is logged for this many intervals; then nothing more counts before their image.
constexpr std::uint32_t kMaxLoggedIntervals = 4;

}  // namespace

Clock ImageSender::logged(std::size_t index, WorkerId worker) const {
  if (!logs_updates_) return Clock();
  const auto found = tracks_.find(index);
  const auto newest = found == tracks_.end() ? std::nullopt : found->second.log.newest(worker);
  return newest ? newest->next() : Clock();
}

void ImageSender::release(std::vector<UpdateLog::Push> pushes) {
  std::ranges::move(pushes, std::back_inserter(released_));
}

/// Takes the updates of a slice that count next and for which there is room.
std::vector<UpdateLog::Push> ImageSender::take_next(std::size_t index, Track& track,
                                                    std::size_t most) {
  if (track.room == nullptr) return track.log.take_kept(most);
  std::vector<UpdateLog::Push> taken;
  while (taken.size() < most) {
    const UpdateLog::Push* next = track.log.next_kept();
    const std::uint64_t bytes = next == nullptr ? 0 : RowAllowance::bytes_of(update_of(next->item));
    if (next != nullptr && !track.room->has(bytes)) {
      wait_for_room_.insert(index);
      break;
    }
    // This also drops those that count already.
    std::vector<UpdateLog::Push> one = track.log.take_kept(1);
    if (one.empty()) break;
    track.room->note_counted(track.counted, bytes);
    std::ranges::move(one, std::back_inserter(taken));
  }
  return taken;
}

/// Releases the updates of a slice that every backup has. If one of them may complete what a lost
/// member had pushed before its leave, those behind it wait for an image.
void ImageSender::release_kept(std::size_t index, Track& track) {
  if (track.needs_image) return;
  if (track.names_drops_later) {
    one_by_one_.insert(index);
  } else {
    release(take_next(index, track));
  }
}

std::vector<UpdateLog::Push> ImageSender::take_released() {
  for (const std::size_t index : std::exchange(wait_for_room_, {})) {
    const auto found = tracks_.find(index);
    if (found == tracks_.end()) continue;
    release_kept(index, found->second);
    rest_if_done(index, found->second);
  }
  for (const std::size_t index : std::exchange(one_by_one_, {})) {
    const auto found = tracks_.find(index);
    if (found == tracks_.end() || found->second.needs_image) continue;
    std::vector<UpdateLog::Push> next = take_next(index, found->second, 1);
    if (!next.empty()) one_by_one_.insert(index);
    rest_if_done(index, found->second);
    release(std::move(next));
  }
  std::set<const LogRoom*> full;
  for (const std::size_t index : wait_for_room_) full.insert(tracks_.at(index).room);
  if (!full.empty()) make_room(full);
  return std::exchange(released_, {});
}

/// Requests a bucket's next image before its turn, if that makes room. While one is in flight it
/// does nothing; the bucket is checked again afterwards.
void ImageSender::ask_for_image(std::size_t index, Track& track) {
  if (!track.counted.can_shrink() || !track.under_way.empty()) return;
  track.is_due = true;
  pending_.insert(index);
}

/// Requests images of all buckets whose tables have updates that wait for room.
void ImageSender::make_room(const std::set<const LogRoom*>& full) {
  for (auto& [index, track] : tracks_) {
    if (full.contains(track.room)) ask_for_image(index, track);
  }
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
  Track& track = tracks_.at(index);
  // It was sent again because it does not count yet: a backup may have no room for it.
  if (track.room != nullptr && track.log.has(push.worker, push.item.clock)) {
    make_room({track.room});
  }
  track.log.add(std::move(push));
  pending_.insert(index);
}

/// Removes a slice from pending_ if nothing of it is left to send.
void ImageSender::rest_if_done(std::size_t index, const Track& track) {
  if (!track.is_due && track.under_way.empty() && track.log.empty()) pending_.erase(index);
}

/// Whether a slice has not yet applied all updates of a lost member from before its leave.
/// done  its first update that is not in the values
bool ImageSender::owes_before(const SliceState& slice, Clock leave, Clock done) {
  return slice.next_after(done - 1) < leave;
}

/// Once everything that a lost member had pushed before its leave is applied, an image must show
/// which updates were dropped before anything later counts.
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
  // If V does not rise because one worker is far behind, the number of the others' updates decides.
  const auto applied = static_cast<std::uint64_t>(slice.applications() - track.applications);
  if (track.names_drops_later) name_drops(index, track, slice);
  // Slices have different turns, so that each clock sends images of only some of them.
  const std::int64_t turn = (slice.version().value() + static_cast<std::int64_t>(index)) %
                            static_cast<std::int64_t>(interval_);
  const std::int64_t risen = slice.version() - track.version;
  if (track.lag.is_news(slice.applications())) changed_.push_back(index);
  // Readers wait for it, and the one in flight may be older.
  const bool is_awaited =
      shows_kept_ && slice.is_hidden() && (risen > 0 || slice.applications() > track.applications);
  if (note_applied(track, slice) || is_awaited || (risen > 0 && turn == 0) || risen >= interval_ ||
      applied >= 2 * interval_ * members_) {
    track.is_due = true;
    pending_.insert(index);
  }
  if (track.room != nullptr && track.room->is_short()) ask_for_image(index, track);
  if (!logs_updates_ || track.needs_image || !is_log_long(track, slice)) return;
  track.needs_image = true;
  // The image in flight is recent enough.
  track.needed = track.under_way.empty() ? 0 : track.sequence;
  track.is_due |= track.under_way.empty();
  pending_.insert(index);
}

/// Backups keep what is logged until they have an image. While a new backup's images are in flight
/// that may take long: beyond some intervals, nothing more counts until it has them.
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

/// Whether updates that workers wait for are now in the values for the first time.
bool ImageSender::note_applied(Track& track, const SliceState& slice) {
  bool is_news = false;
  for (auto& [worker, waiting] : track.waiting) {
    if (waiting.is_applied || slice.settled(worker) < waiting.clock) continue;
    is_news = waiting.is_applied = true;
  }
  return is_news && track.copy != 0;
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
