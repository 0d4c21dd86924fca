// The half of a shard that replicates: what it takes over, whose images it keeps and sends.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "common/failpoint.hpp"
#include "server/shard.hpp"

namespace taut::server {

/// Adopts which host serves which shard: drops shards that are now served elsewhere, and starts
/// shards of which this host is now the primary from its images.
void Shard::follow_places(JobState& job) {
  const JobView& view = *job.view;
  std::map<ShardId, std::uint64_t> served;
  if (view.places.empty()) served.emplace(job.id, 0);
  for (const ShardPlace& place : view.places) {
    if (place.host == job.id) served.emplace(place.shard, place.term);
  }
  if (served != job.served) {
    std::erase_if(job.slices, [&](const auto& entry) {
      const bool stays = served.contains(entry.second->place().shard);
      if (!stays) queues_.forget(*entry.second);
      return !stays;
    });
    forget_greetings(view.job, served);
  }
  const auto before = job.served;
  for (const ShardPlace& place : view.places) {
    if (place.host != job.id || place.term <= 1 || before.contains(place.shard)) continue;
    const auto copy = job.copies.find(place.shard);
    if (copy == job.copies.end() || !copy->second.is_complete()) {
      job.error = fmt::format("shard {} cannot be taken over: its images are not whole",
                              place.shard.value());
      continue;
    }
    try {
      if (auto taken = take_over(job, place, copy->second); !taken) {
        job.error = taken.error().message;
      }
    } catch (const std::bad_alloc&) {
      job.error = fmt::format("shard {} cannot be taken over: there is no memory for it",
                              place.shard.value());
    }
  }
  job.served = std::move(served);
  // Images are kept for as long as this host is the shard's backup by the same choice.
  std::erase_if(job.copies, [&](const auto& entry) {
    return std::ranges::none_of(view.places, [&](const ShardPlace& place) {
      const ShardBackup* backup = place.backup_at(job.id);
      return place.shard == entry.first && backup != nullptr &&
             backup->choice == entry.second.choice();
    });
  });
  for (const ShardPlace& place : view.places) {
    const ShardBackup* backup = place.backup_at(job.id);
    if (backup == nullptr || place.host == job.id) continue;
    job.copies.try_emplace(place.shard, place, backup->choice).first->second.follow(place);
  }
  if (!job.tables.empty()) job.images.follow(view, job.id, job.slices, dial_);
}

Result<void> Shard::take_over(JobState& job, const ShardPlace& place, SliceImageStore& copy) {
  if (job.tables.empty()) {
    // No worker has opened them here yet. Those that wait for a list ask again, about this term. A
    // checkpoint order is followed once the shard's slices exist, too.
    job.wait_for_list.clear();
    TAUT_TRY(create_slices(job, copy.tables()));
  } else if (copy.tables() != job.tables) {
    return make_error(
        ErrorCode::kMismatch,
        fmt::format("shard {} cannot be taken over: its images are of other tables than "
                    "those that workers have opened here",
                    place.shard.value()));
  }
  if (memory_) {
    // What was logged ends up in the slices: applied, or within their allowance.
    TAUT_TRY(TableMemory::Share share,
             memory_->take(needs_at(place.shard, job.layout, job.tables, *job.view),
                           copy.take_memory()));
    job.memory.push_back(std::move(share));
  }
  for (const Slice& slice : job.layout.slices()) {
    if (slice.shard != place.shard) continue;
    const SliceImage image = copy.take_slice(slice, pool_, states_of(*job.view));
    auto slice_state = make_slice(job, job.tables[slice.table.value()], slice, &image);
    queues_.add(*slice_state);
    job.slices[job.layout.index_of(slice.table, slice.slice)] = std::move(slice_state);
  }
  return ok();
}

void Shard::forget_greetings(JobId job, const std::map<ShardId, std::uint64_t>& served) {
  std::erase_if(greeted_, [&](const auto& entry) {
    const Greeting& greeting = entry.second;
    if (greeting.job != job || greeting.term == 0) return false;
    const auto now = greeting.shard ? served.find(*greeting.shard) : served.end();
    return now == served.end() || now->second != greeting.term;
  });
}

/// Takes up to which clock a worker that opens the tables has sent updates of each slice.
void Shard::take_sent(JobState& job, const Greeting& greeting, WorkerId worker,
                      Incarnation incarnation, const pb::OpenTables& requested, Outbox& out) {
  if (!job.settling || !greeting.shard) return;
  const Member* member = job.view->membership.find(worker);
  if (member == nullptr || member->fenced || member->incarnation != incarnation) return;
  int number = 0;
  std::vector<Answer> released;
  for (const Slice& place : job.layout.slices()) {
    if (place.shard != *greeting.shard) continue;
    const auto found = job.slices.find(job.layout.index_of(place.table, place.slice));
    const Clock sent = number < requested.sent_size() ? Clock(requested.sent(number)) : Clock();
    ++number;
    if (found == job.slices.end() || sent < Clock() || sent > kMaxClock) continue;
    released.clear();
    const QueueCount count(queues_, *found->second);
    found->second->hear_replays(worker, sent, released);
    add(released, job, *found->second, out);
  }
  note_settling(job);
}

/// Lets slices answer reads again once the backups have an image, and with it what was logged only
/// here.
void Shard::note_backed(JobState& job, Outbox& out) {
  if (!job.settling) return;
  std::vector<Answer> released;
  for (auto& [index, slice] : job.slices) {
    if (!slice->gate().awaits_backups() || job.images.awaits_image(index)) continue;
    released.clear();
    const QueueCount count(queues_, *slice);
    slice->note_backed(released);
    add(released, job, *slice, out);
  }
  note_settling(job);
}

/// If readers get only what the backups have, answers those of a slice that have waited for that.
void Shard::show_kept(JobState& job, std::size_t index, Outbox& out) {
  const auto found = job.slices.find(index);
  if (!job.view->shows_kept() || found == job.slices.end()) return;
  SliceState& slice = *found->second;
  std::vector<Answer> released;
  const QueueCount count(queues_, slice);
  slice.note_kept(job.images.kept(index), *job.view, released);
  add(released, job, slice, out);
  job.images.note_push(index, slice);
  if (!slice.bad_updates().empty()) note_bad_updates(job, slice);
}

void Shard::show_kept(JobState& job, Outbox& out) {
  for (const auto& [index, slice] : job.slices) show_kept(job, index, out);
}

void Shard::note_settling(JobState& job) {
  const bool settling = std::ranges::any_of(
      job.slices, [](const auto& entry) { return entry.second->is_settling(); });
  if (std::exchange(job.settling, settling) != settling) changed_.push_back(job.view->job);
}

Clock Shard::stable(const JobState& job, const SliceState& slice, WorkerId worker) const {
  if (job.view->replication_interval == 0) return slice.done(worker);
  return job.images.stable(job.layout.index_of(slice.place().table, slice.place().slice), worker,
                           slice);
}

void Shard::settle(PeerId from, WorkerId worker, const DataItem& item, JobState& job,
                   SliceState& slice, Outbox& out) {
  failpoint("settle asked");
  // In a buffer the update may wait for others that no worker makes before this one is safe.
  if (job.view->has_buffer() && slice.done(worker) >= item.clock &&
      slice.settled(worker) < item.clock) {
    std::vector<Answer> released;
    slice.end_wait(*job.view, released);
    add(released, job, slice, out);
    job.images.note_push(job.layout.index_of(item.table, item.slice), slice);
    if (!slice.bad_updates().empty()) note_bad_updates(job, slice);
  }
  if (stable(job, slice, worker) < item.clock) {
    const std::size_t index = job.layout.index_of(item.table, item.slice);
    job.images.settle(index, slice, from, worker, item.clock);
  }
  DataItem reply;
  reply.kind = pb::DataItem::SETTLED;
  reply.table = item.table;
  reply.slice = item.slice;
  reply.clock = item.clock;
  reply.done = slice.done(worker);
  reply.stable = stable(job, slice, worker);
  out.add(from, std::move(reply));
}

/// If the job logs updates, has the shard's backups take an update first. One that the slice would
/// not accept, now or after those that wait, goes to the slice at once and is refused. Returns
/// whether the update waits.
bool Shard::log_first(PeerId from, const DataMessage& message, const DataItem& item, JobState& job,
                      const SliceState& slice, Outbox& out) {
  const UpdateLog* log = log_of(job, slice);
  const WorkerId worker = message.worker;
  if (log == nullptr || !reason_to_wait(worker, item, job, slice).empty()) return false;
  if (slice.judge(worker, item.clock) == PushVerdict::kDuplicate) return false;
  const bool is_here = log->has(worker, item.clock);
  if (!is_here && (!is_next(worker, item.clock, job, slice) ||
                   is_beyond_reads(worker, item.clock, job, slice))) {
    return false;
  }
  const bool is_full = !is_here && log->is_full();
  if (is_here || is_full) {
    // For a worker that asks whether the shard is alive, or that must send the update again.
    DataItem reply;
    reply.kind = pb::DataItem::PARKED;
    reply.table = item.table;
    reply.slice = item.slice;
    reply.clock = item.clock;
    out.add(from, std::move(reply));
  }
  if (!is_full) {
    const std::size_t index = job.layout.index_of(item.table, item.slice);
    job.images.log(index, {from, worker, message.incarnation, item, false,
                           slice.take_room(worker, update_of(item))});
    failpoint("update logged");
  }
  return true;
}

/// If updates are logged, the clock of a lost member's first update that is in no image; never() if
/// there is none. Until then the member must not be forgotten, since only members' updates are
/// taken from a log.
Clock Shard::lowest_unsafe(const JobState& job) {
  Clock lowest = Clock::never();
  if (!job.view->logs_updates) return lowest;
  for (const Member& member : job.view->membership.members()) {
    if (!member.fenced) continue;
    for (const auto& [index, slice] : job.slices) {
      const Clock stable = job.images.stable(index, member.worker, *slice);
      if (stable >= slice->settled(member.worker)) continue;
      // One that leaves earlier than where this slice has its updates is forgotten at its leave.
      const Clock kept = member.leave == Clock::never() ? stable : Clock(member.leave.value() - 1);
      lowest = std::min({lowest, stable, kept});
    }
  }
  return lowest;
}

/// Serves the logged updates that the backups have by now, or that no longer have a backup.
void Shard::serve_logged(JobState& job, Outbox& out) {
  // What one of them completes may make the next ones wait.
  for (auto pushes = job.images.take_released(); !pushes.empty();
       pushes = job.images.take_released()) {
    for (const UpdateLog::Push& push : pushes) {
      const DataMessage message{job.view->job, push.worker, push.incarnation, {}};
      serve_item(push.from, message, push.item, job, out, true);
    }
  }
}

std::vector<Outgoing> Shard::take_images(TimePoint now) {
  std::vector<Outgoing> out;
  for (auto& [id, job] : jobs_) {
    for (Outgoing& one : job.images.take_outgoing(job.tables, job.slices, now)) {
      out.push_back(std::move(one));
    }
    if (job.images.check(now)) changed_.push_back(id);
  }
  return out;
}

std::vector<BackupLag> Shard::backup_lags(TimePoint now) const {
  std::vector<BackupLag> lags;
  for (const auto& [id, job] : jobs_) {
    const std::vector<BackupLag> of_job = job.images.lags(job.slices, now);
    lags.insert(lags.end(), of_job.begin(), of_job.end());
  }
  return lags;
}

bool Shard::expects(JobId id, const DataImages& images) const {
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return false;
  const auto copy = job->second.copies.find(images.shard);
  return copy != job->second.copies.end() && copy->second.expects(images);
}

std::vector<Outgoing> Shard::keep(PeerId from, JobId id, const DataImages& images) {
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return {};
  const auto copy = job->second.copies.find(images.shard);
  if (copy == job->second.copies.end()) return {};
  SliceImageStore& store = copy->second;
  const bool was_complete = store.is_complete();
  const std::string problem = store.problem();
  auto reply = store.take(images, *job->second.view, slice_elements_, memory_);
  failpoint("image kept");
  if (store.is_complete() != was_complete || store.problem() != problem) changed_.push_back(id);
  if (!reply) return {};
  return {{from, DataMessage{id, {}, {}, std::move(*reply)}}};
}

std::vector<Outgoing> Shard::note_kept(PeerId from, JobId id, const pb::SliceImagesReply& reply,
                                       TimePoint now) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return {};
  failpoint("image acknowledged");
  JobState& job = found->second;
  const auto index_of = [&](TableId table, SliceId slice) -> std::optional<std::size_t> {
    if (job.layout.find(table, slice) == nullptr) return std::nullopt;
    return job.layout.index_of(table, slice);
  };
  Outbox out(id);
  const Clock unsafe = lowest_unsafe(job);
  for (const ImageSender::Settled& settled : job.images.take_reply(from, reply, index_of, now)) {
    const SliceState& slice = *job.slices.at(settled.index);
    const Member* member = job.view->membership.find(settled.worker);
    if (member == nullptr) continue;
    DataItem item;
    item.kind = pb::DataItem::SETTLED;
    item.table = slice.place().table;
    item.slice = slice.place().slice;
    item.done = slice.done(settled.worker);
    item.stable = stable(job, slice, settled.worker);
    out.add(settled.peer, std::move(item));
  }
  if (lowest_unsafe(job) != unsafe) changed_.push_back(id);
  note_backed(job, out);
  for (const pb::SliceImagesReply::Kept& kept : reply.kept()) {
    const auto index = index_of(TableId(kept.table()), SliceId(kept.slice()));
    if (index) show_kept(job, *index, out);
  }
  serve_logged(job, out);
  return out.take();
}

}  // namespace taut::server
