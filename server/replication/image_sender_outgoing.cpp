// What is sent to backups now: which slice's image is made, and the messages that carry it.
#include <algorithm>
#include <cstdint>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "common/failpoint.hpp"
#include "proto/config/job_state.hpp"
#include "server/replication/image_parts.hpp"
#include "server/replication/image_sender.hpp"
#include "server/tables/row_allowance.hpp"

namespace taut::server {
namespace {

/// Splits a batch into messages of at least kTargetBytes or kMaxImages images; the last has the
/// rest.
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
    next(image_bytes(image)).images.push_back(std::move(image));
  }
  for (LoggedUpdate& one : batch.logged) {
    next(one.update.gradient.size()).logged.push_back(std::move(one));
  }
  return messages;
}

/// The bytes of the updates that a bucket has not applied.
std::uint64_t bytes_held_by(const SliceState& slice) {
  std::uint64_t bytes = 0;
  for (const LoggedUpdate& one : slice.held_updates()) bytes += RowAllowance::bytes_of(one.update);
  return bytes;
}

}  // namespace

bool ImageSender::is_sendable(const Track& track, const Targets& targets, TimePoint now) const {
  constexpr int kMaxDoublings = 6;
  if (!track.under_way.empty()) {
    // An image of many parts takes longer.
    const auto times =
        static_cast<std::int64_t>(1 + image_bytes(track.under_way) / kMaxBytesInFlight);
    const Duration again = times * again_;
    return now - track.sent >= (1 << std::min(track.attempts - 1, kMaxDoublings)) * again;
  }
  // A backup is complete only once it has what the slice accepted before it was chosen.
  if (!track.is_kept && track.log.lacks_accepted()) return false;
  return track.is_due && std::ranges::all_of(targets.list, [](const Target& target) {
           return target.under_way < kMaxBytesInFlight;
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
  // Waiting updates past their worker's leave will be dropped. After a take-over, the log has, of a
  // worker that was lost before it and leaves at another clock here, only what the slice holds.
  for (const auto& [worker, leave] : leaves_) {
    const auto done = item.done.find(worker);
    if (done == item.done.end() || slice.leaves_here(worker)) continue;
    Clock& logged = track.logged_until[worker];
    logged = std::max(logged, track.log.newest(worker).value_or(Clock(-1)).next());
    // Backups keep logged updates that are not in the values, even those that count, before the
    // leave.
    if (owes_before(slice, leave, done->second)) {
      track.names_drops_later = true;
      continue;
    }
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
  if (track.room != nullptr) track.room->note_image(track.counted, bytes_held_by(slice));
  track.is_due = false;
  track.lag.note_image(image.applications);
  track.version = image.version;
  track.applications = image.applications;
  return parts;
}

bool ImageSender::add(Track& track, Targets& targets, SliceState& slice,
                      std::vector<DataImages>& batches, TimePoint now) {
  const bool is_full = std::ranges::any_of(
      batches, [](const auto& batch) { return batch.images.size() >= DataImages::kMaxImages; });
  if (is_full || !is_sendable(track, targets, now)) return false;
  if (track.under_way.empty()) {
    try {
      track.under_way = make_image(slice, track);
    } catch (const std::bad_alloc&) {
      return false;  // tried again, as readers release memory
    }
    track.attempts = 0;
    track.begun = now;
    // Readers wait until each backup has it.
    if (slice.is_hidden()) track.newcomers = BackupSet();
    track.lacking =
        track.newcomers.empty() ? BackupSet::first(targets.list.size()) : track.newcomers;
    for (std::size_t backup = 0; backup < targets.list.size(); ++backup) {
      if (track.lacking.has(backup)) targets.list[backup].under_way += image_bytes(track.under_way);
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

std::vector<Outgoing> ImageSender::take_outgoing(const std::vector<TableSpec>& tables,
                                                 const JobSlices& slices, TimePoint now) {
  std::vector<Outgoing> out;
  note_changes(slices, now);
  if (targets_.empty()) return out;
  std::map<ShardId, std::vector<DataImages>> batches;  // for each backup
  for (const auto& [shard, targets] : targets_) batches[shard].resize(targets.list.size());
  std::map<ShardId, std::uint64_t> logged;  // bytes in flight
  for (const std::size_t index : pending_) {
    const Track& track = tracks_.at(index);
    logged[track.shard] += track.log.under_way();
  }
  // Starts with the slice whose turn it is, so that each is sent in time if not all fit.
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
  // If there are fewer slices than shards, this shows the backup that it has them all.
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

}  // namespace taut::server
