// What a shard does with items that it does not refuse: updates and reads, to their slices.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/failpoint.hpp"
#include "common/ssp/row_buckets.hpp"
#include "server/item_replies.hpp"
#include "server/shard.hpp"

namespace taut::server {
namespace {

// The most values of rows that one message gets: above what a client requests at once.
constexpr std::uint64_t kMaxRowsAnswered = 4 * kMaxRowValues;

}  // namespace

void Shard::serve(PeerId from, const DataMessage& message, const DataItems& batch, Outbox& out) {
  const auto job = jobs_.find(message.job);
  std::uint64_t row_values = 0;  // requested so far
  for (const DataItem& item : batch.items) {
    if (item.by_rows && !is_push(item)) row_values += item.rows * item.count;
    if (row_values > kMaxRowsAnswered) {
      // A few bytes request many values: those beyond the limit must be requested again.
      out.add(from, reply_to(item, pb::DataItem::PARKED));
    } else if (job == jobs_.end()) {
      out.add(from, refuse(item, pb::DataItem::UNKNOWN_JOB,
                           fmt::format("job {} is unknown", message.job.value())));
    } else if (job->second.tables.empty()) {
      out.add(from, refuse(item, pb::DataItem::NOT_OPEN, "no tables are open"));
    } else if (item.by_rows && is_push(item) && item.payload.size() > 0) {
      // Its sender could change the numbers in shared memory after they are checked.
      DataItem own = item;
      const Buffer copy = states_.acquire(item.payload.size());
      std::ranges::copy(item.payload.bytes(), copy.data());
      own.payload = Frame(copy).part(0, item.payload.size());
      serve_item(from, message, own, job->second, out);
    } else {
      serve_item(from, message, item, job->second, out);
    }
  }
}

void Shard::snapshot(PeerId from, WorkerId worker, const DataItem& item, SliceState& slice,
                     Outbox& out) {
  // A worker that asks again gets it once the slice is complete.
  if (slice.is_settling()) {
    out.add(from, reply_to(item, pb::DataItem::PARKED));
    return;
  }
  failpoint("snapshot asked");
  out.add(item.by_rows ? slice.snapshot({from, worker, item.clock, item.payload})
                       : slice.snapshot(from),
          slice, pb::DataItem::SNAPSHOT_VALUE);
}

/// is_logged  a push that the shard's backups already have, if they must have it first
void Shard::serve_item(PeerId from, const DataMessage& message, const DataItem& item, JobState& job,
                       Outbox& out, bool is_logged) {
  if (auto refusal = refusal_of(message, item, job, is_logged)) {
    out.add(from, std::move(*refusal));
    return;
  }
  const auto found = job.slices.find(job.layout.index_of(item.table, item.slice));
  if (found == job.slices.end()) {
    // The job's report says so, and the coordinator ends it.
    out.add(from, refuse(item, pb::DataItem::HELD, "its shard was not taken over"));
    return;
  }
  SliceState& slice = *found->second;
  if (item.kind == pb::DataItem::SNAPSHOT) return snapshot(from, message.worker, item, slice, out);
  if (item.kind == pb::DataItem::FOLLOW) {
    if (const auto answer = slice.follow(from, item.clock)) return add({*answer}, job, slice, out);
    out.add(from, reply_to(item, pb::DataItem::PARKED));
    return;
  }
  const QueueCount count(queues_, slice);
  if (item.kind == pb::DataItem::SETTLE) {
    settle(from, message.worker, item, job, slice, out);
    return;
  }
  if (is_push(item) && !is_logged) {
    if (auto refusal = beyond_clock_rows(message.worker, item, job, slice)) {
      out.add(from, std::move(*refusal));
      return;
    }
    if (log_first(from, message, item, job, slice, out)) return;
  }
  if (is_push(item)) {
    if (auto refusal = push(message.worker, item, job, slice, out, is_logged)) {
      out.add(from, std::move(*refusal));
      return;
    }
  }
  const Clock read_clock = is_push(item) ? item.clock.next() : item.clock;
  if (item.kind != pb::DataItem::PUSH &&
      read({from, message.worker, read_clock, is_push(item) ? Frame() : item.payload}, job, slice,
           out)) {
    return;
  }
  DataItem reply = reply_to(item, is_push(item) ? pb::DataItem::ACK : pb::DataItem::PARKED);
  reply.done = slice.done(message.worker);
  reply.stable = stable(job, slice, message.worker);
  if (!is_push(item)) {
    reply.version = slice.version();
    // A read that waits only for backups waits for no other worker.
    reply.waits_for =
        slice.is_hidden() ? message.worker : slice.holds_back(message.worker, item.clock);
    reply.follower = job.bound.holds_back(item.clock).value_or(FollowerId());
  }
  out.add(from, std::move(reply));
}

/// Passes an update to its slice. Returns why it is refused for now; nullopt if it was accepted,
/// now or earlier.
std::optional<DataItem> Shard::push(WorkerId worker, const DataItem& item, JobState& job,
                                    SliceState& slice, Outbox& out, bool is_logged) {
  failpoint("update received");
  const JobView& view = *job.view;
  if (std::string why = is_logged ? "" : reason_to_wait(worker, item, job, slice); !why.empty()) {
    ++queues_.postponed_updates;
    return refuse(item, pb::DataItem::HELD, std::move(why));
  }
  if (!is_logged && is_beyond_reads(worker, item.clock, job, slice)) {
    ++queues_.postponed_updates;
    return refuse(item, pb::DataItem::HELD, "the updates of other members are missing");
  }
  std::vector<Answer> released;
  const std::uint64_t dropped_before = slice.dropped();
  const PushVerdict verdict = slice.push(worker, update_of(item), view, released);
  failpoint("update taken");
  if (!released.empty()) failpoint("clock applied");
  add(released, job, slice, out);
  job.images.note_push(job.layout.index_of(item.table, item.slice), slice);
  job.capture.note_push(slice, job.tables, job.slices);
  if (job.settling) note_settling(job);
  if (verdict == PushVerdict::kAhead) {
    ++queues_.postponed_updates;
    DataItem reply = refuse(item, pb::DataItem::OUT_OF_ORDER, "earlier updates are missing");
    reply.done = slice.done(worker);
    return reply;
  }
  dropped_ += slice.dropped() - dropped_before;
  if (!slice.bad_updates().empty()) note_bad_updates(job, slice);
  job.slack->note_push(worker, item.clock, now_);
  return std::nullopt;
}

/// Reports the 1st, 2nd, 4th ... such clock to the coordinator, which need not know each. Several
/// may be added at once: updates that waited for a member that is lost, or in a buffer.
void Shard::note_bad_updates(JobState& job, const SliceState& slice) {
  for (const auto& [worker, clocks] : slice.bad_updates()) {
    std::uint64_t& known = job.bad_updates[worker];
    if (clocks <= known) continue;
    const bool is_heard_of = std::bit_width(clocks) > std::bit_width(known);
    known = clocks;
    if (is_heard_of) changed_.push_back(job.view->job);
  }
}

void Shard::add(const std::vector<Answer>& answers, const JobState& job, const SliceState& slice,
                Outbox& out) const {
  for (const Answer& answer : answers) {
    if (answer.follows) {
      const bool is_passed = answer.values.empty();
      out.add(answer, slice, is_passed ? pb::DataItem::FOLLOW_PASSED : pb::DataItem::FOLLOW_VALUE);
      continue;
    }
    out.add(answer, slice, pb::DataItem::VALUE, stable(job, slice, answer.reader.worker));
  }
}

/// Answers a read now, or leaves it parked. Returns whether it was answered.
bool Shard::read(const Reader& reader, JobState& job, SliceState& slice, Outbox& out) const {
  const Slack slack = job.slack->slack_of_read(reader.worker, reader.clock, job.view->slack);
  const auto answer = slice.read(reader, *job.view, slack);
  failpoint(answer ? "read answered" : "read parked");
  if (answer) {
    out.add(*answer, slice, pb::DataItem::VALUE, stable(job, slice, reader.worker));
  }
  return answer.has_value();
}

}  // namespace taut::server
