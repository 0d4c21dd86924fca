// What backups acknowledge: which images and updates each has, and what counts from then on.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "server/replication/image_parts.hpp"
#include "server/replication/image_sender.hpp"

namespace taut::server {

/// Notes that a backup has an image of a slice, or (sequence 0) cannot use the one in flight.
void ImageSender::take_kept(std::size_t index, Track& track, Targets& targets, std::size_t backup,
                            std::uint64_t sequence, std::vector<Settled>& settled) {
  if (track.under_way.empty() || !track.lacking.has(backup)) return;
  const ImageItem& image = track.under_way.front();
  // The backup does not have the image that this one continues.
  const bool cannot = sequence == 0 && image.base != 0;
  if (!cannot && sequence != image.sequence) return;
  const auto end_for = [&](std::size_t one) {
    if (!track.lacking.has(one)) return;
    track.lacking.remove(one);
    Target& target = targets.list[one];
    target.under_way -= std::min(target.under_way, image_bytes(track.under_way));
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

/// Notes that the image in flight has arrived.
void ImageSender::note_kept(std::size_t index, Track& track, std::vector<Settled>& settled) {
  const bool all_have_it = track.newcomers.empty();
  if (all_have_it) {
    note_stable(index, track, settled);
  } else {
    // The other backups' images are older. The next image goes to all, in its turn.
    track.newcomers = BackupSet();
    track.is_whole_due = true;
    track.version = track.kept_version;
    track.applications = track.kept_applications;
  }
  track.under_way.clear();
  track.is_kept = true;
  // If more has changed, it has been missing since that image was first sent.
  track.behind_since.reset();
  if (track.is_due) track.behind_since = track.begun;
  // A worker that still waits needs another image.
  track.is_due |= std::ranges::any_of(
      track.waiting, [](const auto& waiting) { return waiting.second.is_applied; });
  rest_if_done(index, track);
}

/// Notes that every backup has the image in flight.
void ImageSender::note_stable(std::size_t index, Track& track, std::vector<Settled>& settled) {
  const ImageItem& image = track.under_way.front();
  track.kept_version = image.version;
  track.kept_applications = image.applications;
  track.shown = {image.version, image.applications};
  if (track.room != nullptr) track.room->note_kept(track.counted);
  for (const auto& [worker, done] : image.done) {
    Clock& stable = track.stable[worker];
    stable = std::max(stable, done);
  }
  if (track.needs_image && track.needed != 0 && image.sequence >= track.needed) {
    track.needs_image = false;
    release_kept(index, track);
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
  // Any reply is an answer, whatever it says.
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
    release_kept(*index, track);
    rest_if_done(*index, track);
  }
  return settled;
}

}  // namespace taut::server
