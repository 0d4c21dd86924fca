#include "server/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <utility>

#include "common/failpoint.hpp"
#include "common/ssp/row_buckets.hpp"
#include "proto/rights.hpp"
#include "proto/wire_version.hpp"
#include "server/tables/bucket_numbers.hpp"

namespace taut::server {
namespace {

// Peers are remembered up to this number; then the oldest that is no worker must greet again.
constexpr std::size_t kMaxGreeted = 65536;
// Clocks of updates that a slice holds beyond the slack: what is pushed before the read that waits,
// and one more.
constexpr std::uint64_t kHeldClocks = 2;
// Values of rows that one message gets: above what a client asks for at once.
constexpr std::uint64_t kMaxRowsAnswered = 4 * kMaxRowValues;

DataItem reply_to(const DataItem& item, DataItem::Kind kind) {
  DataItem reply;
  reply.kind = kind;
  reply.table = item.table;
  reply.slice = item.slice;
  reply.clock = item.clock;
  return reply;
}

DataItem refuse(const DataItem& item, DataItem::Refusal why, std::string reason) {
  DataItem reply = reply_to(item, pb::DataItem::REFUSED);
  reply.refusal = why;
  reply.reason = std::move(reason);
  return reply;
}

bool is_push(const DataItem& item) {
  return item.kind == pb::DataItem::PUSH || item.kind == pb::DataItem::PUSH_READ;
}

/// Why an item does not fit a table that is kept by rows, or that is not; empty: it fits. Whatever
/// order a push's rows had, its sums would depend on it.
std::string refusal_of_rows(const DataItem& item, const Slice& place, const TableSpec& table) {
  const bool names_rows =
      is_push(item) || item.kind == pb::DataItem::READ || item.kind == pb::DataItem::SNAPSHOT;
  if (item.by_rows != table.rows.has_value() && (names_rows || item.by_rows)) {
    return fmt::format("table {} {} by rows, and the item {}", table.id.value(),
                       table.rows ? "is kept" : "is not kept", item.by_rows ? "is" : "is not");
  }
  if (table.rows && item.kind == pb::DataItem::FOLLOW) {
    return fmt::format("table {} is kept by rows, which cannot be followed", table.id.value());
  }
  if (!item.by_rows) return {};
  if (item.count != place.count) {
    return fmt::format("a row of table {} has {} values, not {}", table.id.value(), place.count,
                       item.count);
  }
  const std::uint64_t most = table.rows->clock_rows;
  if (most > 0 && item.rows > most && item.kind != pb::DataItem::SNAPSHOT) {
    return fmt::format("the item names {} rows of table {}, whose clock_rows are {}", item.rows,
                       table.id.value(), most);
  }
  return misfit_of_numbers(table, place.slice.value(), item.payload.bytes(), item.rows,
                           is_push(item));
}

/// The answer to a message that is not its sender's to send.
std::vector<Outgoing> refuse_all(PeerId from, const DataMessage& message,
                                 const std::string& reason) {
  if (const auto* batch = std::get_if<DataItems>(&message.body)) {
    Outbox out(message.job);
    for (const DataItem& item : batch->items) {
      out.add(from, refuse(item, pb::DataItem::NO_MEMBER, reason));
    }
    return out.take();
  }
  if (std::holds_alternative<pb::OpenTables>(message.body)) {
    pb::OpenTablesReply reply;
    reply.set_reason(reason);
    return {{from, DataMessage{message.job, {}, {}, std::move(reply)}}};
  }
  return {};
}

/// The first digits of a hash from a peer, if it is one: other bytes may not be text.
std::string short_hash(const std::string& hash) {
  const bool hex = !hash.empty() && std::ranges::all_of(hash, [](unsigned char digit) {
    return std::isxdigit(digit) != 0;
  });
  return hex ? hash.substr(0, 12) : fmt::format("({} bytes that are not a hash)", hash.size());
}

}  // namespace

std::vector<Outgoing> Shard::handle(PeerId from, DataMessage message, TimePoint now,
                                    const Identity* sender) {
  now_ = now;
  yield_spares();
  if (std::string reason = refusal_of_sender(message, sender); !reason.empty()) {
    return refuse_all(from, message, reason);
  }
  if (const auto* hello = std::get_if<pb::DataHello>(&message.body)) {
    return {{from, greet(from, message, *hello)}};
  }
  // Between hosts nothing is agreed on first: which peer may send what follows from the job's
  // places.
  if (const auto* images = std::get_if<DataImages>(&message.body)) {
    return keep(from, message.job, *images);
  }
  if (const auto* reply = std::get_if<pb::SliceImagesReply>(&message.body)) {
    return note_kept(from, message.job, *reply, now);
  }
  const auto greeting = greeted_.find(from);
  if (greeting == greeted_.end()) {
    pb::DataHelloReply reply;
    reply.set_wire_version(kWireVersion);
    reply.set_build(build_name());
    reply.set_reason("say hello first");
    reply.set_greet_again(true);
    return {{from, DataMessage{message.job, {}, {}, std::move(reply)}}};
  }
  if (std::holds_alternative<pb::OpenTables>(message.body)) return take_opening(from, message);
  if (const auto* batch = std::get_if<DataItems>(&message.body)) {
    Outbox out(message.job);
    serve(from, message, *batch, out);
    return out.take();
  }
  if (const auto* request = std::get_if<pb::Describe>(&message.body)) {
    return {{from, describe(message.job, *request)}};
  }
  if (const auto* confirm = std::get_if<pb::Confirm>(&message.body)) {
    return take_confirmation(from, message.job, *confirm);
  }
  return {};
}

/// Empty: the message is the sender's to send.
std::string Shard::refusal_of_sender(const DataMessage& message, const Identity* sender) const {
  if (sender == nullptr) return {};
  const auto job = jobs_.find(message.job);
  if (job == jobs_.end()) return taut::refusal_of(sender, message, "");
  if (const auto* confirm = std::get_if<pb::Confirm>(&message.body)) {
    const auto& followers = job->second.view->follower_names;
    const auto follower = followers.find(FollowerId(confirm->follower()));
    return taut::refusal_of(sender, message,
                            follower == followers.end() ? std::string() : follower->second);
  }
  const auto& names = job->second.view->names;
  const auto name = names.find(message.worker);
  return taut::refusal_of(sender, message, name == names.end() ? std::string() : name->second);
}

std::string Shard::misuse_of(const TokenScope& scope, const DataMessage& message) const {
  const auto job = jobs_.find(message.job);
  if (job == jobs_.end()) return taut::misuse_of(scope, message, std::nullopt);
  const Member* member = job->second.view->membership.find(message.worker);
  const bool has_sender =
      member != nullptr && !member->fenced && member->incarnation == message.incarnation;
  return taut::misuse_of(scope, message, JobHere{job->second.view->submission, has_sender});
}

bool Shard::serves(const JobState& job, ShardId shard, std::uint64_t term) {
  const auto served = job.served.find(shard);
  return served != job.served.end() && served->second == term;
}

DataMessage Shard::greet(PeerId from, const DataMessage& message, const pb::DataHello& hello) {
  pb::DataHelloReply reply;
  reply.set_wire_version(kWireVersion);
  reply.set_build(build_name());
  const auto job = jobs_.find(message.job);
  if (hello.wire_version() != kWireVersion) {
    reply.set_reason(
        wire_mismatch(kWireVersion, build_name(), hello.wire_version(), hello.build()));
  } else if (job == jobs_.end()) {
    reply.set_reason(
        fmt::format("job {} is unknown to shard {}", message.job.value(), id_.value()));
    // A host that has just started, where another one was before.
    reply.set_later(hello.term() > 0);
  } else if (job->second.view->hash != hello.job_hash()) {
    reply.set_job_hash(job->second.view->hash);
    reply.set_reason(fmt::format("job {} is {} here and {} there: the definitions differ",
                                 message.job.value(), short_hash(job->second.view->hash),
                                 short_hash(hello.job_hash())));
  } else if (hello.term() > 0 && !serves(job->second, ShardId(hello.shard()), hello.term())) {
    reply.set_reason(
        fmt::format("shard {} is not served here in term {}", hello.shard(), hello.term()));
    reply.set_later(true);
  } else {
    if (greeted_.size() >= kMaxGreeted) {
      const PeerId gone = readers_.empty() ? greeted_.begin()->first : *readers_.begin();
      greeted_.erase(gone);
      readers_.erase(gone);
    }
    Greeting& greeting = greeted_[from];
    if (job->second.view->membership.find(message.worker) == nullptr) readers_.insert(from);
    greeting = {message.job, {}, hello.term()};
    if (hello.has_shard()) greeting.shard = ShardId(hello.shard());
    reply.set_job_hash(job->second.view->hash);
    reply.set_accepted(true);
  }
  return DataMessage{message.job, {}, {}, std::move(reply)};
}

void Shard::follow_checkpoint(JobState& job) {
  job.capture.follow(*job.view, job.id, job.tables, job.slices, memory_, job.served.empty());
}

void Shard::yield_spares() {
  if (!memory_ || !memory_->is_short()) return;
  for (auto& [id, job] : jobs_) job.capture.return_spares();
}

void Shard::serve(PeerId from, const DataMessage& message, const DataItems& batch, Outbox& out) {
  const auto job = jobs_.find(message.job);
  std::uint64_t row_values = 0;  // that are requested
  for (const DataItem& item : batch.items) {
    if (item.by_rows && !is_push(item)) row_values += item.rows * item.count;
    if (row_values > kMaxRowsAnswered) {
      // A few bytes request many: what goes beyond the limit is to be requested again.
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

/// Why an item is refused; nothing: it is not. What was logged before its member was lost counts,
/// up to where the member leaves.
std::optional<DataItem> Shard::refusal_of(const DataMessage& message, const DataItem& item,
                                          const JobState& job, bool is_logged) {
  const Slice* place = job.layout.find(item.table, item.slice);
  if (place == nullptr || !job.served.contains(place->shard)) {
    return refuse(item, pb::DataItem::UNKNOWN_TABLE,
                  fmt::format("table {} slice {} is not on shard {}", item.table.value(),
                              item.slice.value(), job.id.value()));
  }
  const bool is_of_reader =
      item.kind == pb::DataItem::SNAPSHOT || item.kind == pb::DataItem::FOLLOW;
  if (!is_push(item) && !is_of_reader && item.kind != pb::DataItem::READ &&
      item.kind != pb::DataItem::SETTLE) {
    return refuse(item, pb::DataItem::BAD_RANGE, "this item is an answer, not a request");
  }
  if (item.payload_lost) {
    return refuse(item, pb::DataItem::BAD_RANGE,
                  "the payload is in shared memory that was not agreed on");
  }
  const TableSpec& table = job.tables[item.table.value()];
  if (std::string why = refusal_of_rows(item, *place, table); !why.empty()) {
    return refuse(item, pb::DataItem::BAD_RANGE, std::move(why));
  }
  if (is_of_reader) return std::nullopt;  // any reader may have it
  const Member* member = job.view->membership.find(message.worker);
  if (member == nullptr) {
    return refuse(item, pb::DataItem::NO_MEMBER,
                  fmt::format("worker {} is not a member of job {}", message.worker.value(),
                              job.view->job.value()));
  }
  const bool is_lost = member->fenced && !(is_logged && item.clock < member->leave);
  if (is_lost || member->incarnation != message.incarnation) {
    return refuse(item, pb::DataItem::STALE_INCARNATION,
                  fmt::format("stale incarnation: worker {} incarnation {} was declared lost; join "
                              "anew",
                              message.worker.value(), message.incarnation.value()));
  }
  if (is_push(item) && (item.offset != place->offset || item.count != place->count)) {
    return refuse(
        item, pb::DataItem::BAD_RANGE,
        fmt::format("table {} slice {} is [{}, +{}), not [{}, +{})", item.table.value(),
                    item.slice.value(), place->offset, place->count, item.offset, item.count));
  }
  if (is_push(item) && !item.by_rows &&
      !job.view->compression.may_push(table, item.clock, item.encoding)) {
    return refuse(
        item, pb::DataItem::BAD_RANGE,
        fmt::format("table {} is pushed as {} at clock {}; by the job's compression it is {}",
                    item.table.value(), math::to_string(item.encoding), item.clock.value(),
                    math::to_string(job.view->compression.of_push(table, item.clock))));
  }
  const float lowest = job.view->min_weight;
  const float highest = job.view->max_weight;
  if (is_push(item) && (item.weight < lowest || item.weight > highest)) {
    return refuse(item, pb::DataItem::BAD_RANGE,
                  fmt::format("an update weighs {}; in this job it must weigh {} to {}",
                              item.weight, lowest, highest));
  }
  return std::nullopt;
}

/// The updates of a slice that wait for its backups; nullptr: they count at once.
const UpdateLog* Shard::log_of(const JobState& job, const SliceState& slice) {
  if (!job.view->logs_updates) return nullptr;
  const std::size_t index = job.layout.index_of(slice.place().table, slice.place().slice);
  return job.images.logs(index) ? &job.images.log_of(index) : nullptr;
}

/// Whether an update is not here yet, and the slice accepts it now or after those that wait for its
/// backups.
bool Shard::is_next(WorkerId worker, Clock clock, const JobState& job, const SliceState& slice) {
  const UpdateLog* log = log_of(job, slice);
  if (log != nullptr && log->has(worker, clock)) return false;
  if (slice.judge(worker, clock) == PushVerdict::kAccept) return true;
  const auto newest = log == nullptr ? std::nullopt : log->newest(worker);
  return newest && clock == slice.next_after(*newest);
}

/// Whether more updates of a slice wait than its members' reads let them make, those in a buffer
/// aside, and this one need not be here for V to rise: a member that pushes and never reads, as a
/// client of ours does not.
bool Shard::is_beyond_reads(WorkerId worker, Clock clock, const JobState& job,
                            const SliceState& slice) {
  const JobView& view = *job.view;
  if (view.slack.is_unbounded() || job.slack->moving()) return false;
  const UpdateLog* log = log_of(job, slice);
  const auto newest = log == nullptr ? std::nullopt : log->newest(worker);
  const Clock next =
      newest ? std::max(slice.done(worker), slice.next_after(*newest)) : slice.done(worker);
  // A worker that V waits for is not ahead, also where its next push is at a later clock.
  if (next <= slice.version() || clock < next) return false;
  const std::uint64_t members = view.membership.members().size();
  const auto clocks =
      static_cast<std::uint64_t>(std::min<std::int64_t>(view.slack.clocks(), 1 << 20));
  const std::size_t waiting = slice.held() + (log == nullptr ? 0 : log->waiting());
  return waiting >= members * (clocks + kHeldClocks) + view.buffer();
}

/// Whether a member's updates of a clock have more rows in a table than it said they would.
std::optional<DataItem> Shard::beyond_clock_rows(WorkerId worker, const DataItem& item,
                                                 const JobState& job, const SliceState& slice) {
  const RowAllowance* allowance = slice.allowance();
  if (allowance == nullptr || !is_next(worker, item.clock, job, slice) ||
      !allowance->is_beyond_clock(worker, item.clock, RowAllowance::bytes_of(update_of(item)))) {
    return std::nullopt;
  }
  return refuse(item, pb::DataItem::BAD_RANGE,
                fmt::format("at clock {} table {} has more rows in all buckets than its "
                            "clock_rows, {}",
                            item.clock.value(), item.table.value(),
                            job.tables[item.table.value()].rows->clock_rows));
}

void Shard::snapshot(PeerId from, WorkerId worker, const DataItem& item, SliceState& slice,
                     Outbox& out) {
  // A worker that asks again later gets it, when the slice is whole.
  if (slice.is_settling()) {
    out.add(from, reply_to(item, pb::DataItem::PARKED));
    return;
  }
  failpoint("snapshot asked");
  out.add(item.by_rows ? slice.snapshot({from, worker, item.clock, item.payload})
                       : slice.snapshot(from),
          slice, pb::DataItem::SNAPSHOT_VALUE);
}

/// is_logged  a push that the shard's backup has, where it must have it first
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
    // A read that waits for backups alone waits for no other worker.
    reply.waits_for =
        slice.is_hidden() ? message.worker : slice.holds_back(message.worker, item.clock);
    reply.follower = job.bound.holds_back(item.clock).value_or(FollowerId());
  }
  out.add(from, std::move(reply));
}

/// Why an update is to be sent again later; empty: it is not.
std::string Shard::reason_to_wait(WorkerId worker, const DataItem& item, const JobState& job,
                                  const SliceState& slice) {
  if (item.clock >= job.view->hold_from && item.clock >= slice.done(worker) &&
      !slice.gate().is_replay(worker, item.clock)) {
    failpoint("update postponed");
    return "the job's epoch is being changed";
  }
  if (slice.rows() == nullptr || !is_next(worker, item.clock, job, slice)) return {};
  if (slice.waits_for_image()) return "a checkpoint is writing the rows";
  const RowAllowance* allowance = slice.allowance();
  if (allowance == nullptr ||
      allowance->may_hold(worker, RowAllowance::bytes_of(update_of(item)))) {
    return {};
  }
  // What V waits for is taken: of those that are behind it in all buckets.
  for (const Slice& place : job.layout.slices_of(item.table)) {
    if (place.shard != slice.place().shard) continue;
    const auto other = job.slices.find(job.layout.index_of(place.table, place.slice));
    if (other != job.slices.end() && other->second->version() < item.clock) {
      return "the updates of other members are missing";
    }
  }
  return {};
}

/// Passes an update to its slice. Returns why it is refused for now; nothing: it was accepted, now
/// or before.
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

/// The coordinator hears of the first, the second, the fourth clock and so on, since it need not
/// hear of each. Several may be added at once: what waited for a member that is lost, or in a
/// buffer.
void Shard::note_bad_updates(JobState& job, const SliceState& slice) {
  for (const auto& [worker, clocks] : slice.bad_updates()) {
    std::uint64_t& known = job.bad_updates[worker];
    if (clocks <= known) continue;
    const bool is_heard_of = std::bit_width(clocks) > std::bit_width(known);
    known = clocks;
    if (is_heard_of) changed_.push_back(job.view->job);
  }
}

std::uint64_t Shard::value_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [id, job] : jobs_) {
    for (const auto& [index, slice] : job.slices) {
      const std::uint64_t rows = slice->rows() == nullptr ? 1 : slice->rows()->rows();
      bytes += rows * slice->place().count * sizeof(float);
    }
  }
  return bytes;
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

std::vector<Outgoing> Shard::set_job(const std::shared_ptr<const JobView>& view,
                                     ShardImages begin) {
  if (view->finished) {
    const auto over = jobs_.find(view->job);
    if (over == jobs_.end()) return {};
    failpoint("job dropped");
    for (const auto& [index, slice] : over->second.slices) queues_.forget(*slice);
    // The slices' memory becomes free first, and is returned with the rest.
    over->second.slices.clear();
    over->second.capture.return_spares();
    forget_greetings(view->job, {});
    over->second.images.hang_up(dial_);
    jobs_.erase(over);
    return {};
  }
  auto [entry, added] = jobs_.try_emplace(view->job, pool_, states_of(*view), work_);
  JobState& job = entry->second;
  if (!added && job.view->revision >= view->revision) return {};
  if (added) {
    job.id = id_;
    job.begin = std::move(begin);
  }
  job.view = view;
  if (!job.slack) job.slack = view->policies.read_slack();
  job.slack->set_members(view->membership);
  job.bound.update(view->follower_slack, view->followers);
  follow_places(job);
  Outbox out(view->job);
  std::vector<Answer> released;
  for (auto& [index, slice] : job.slices) {
    released.clear();
    const QueueCount count(queues_, *slice);
    // First: what others' leaving makes true is not answered beyond what a new follower allows.
    slice->limit_reads(job.bound.limit());
    slice->update(*view, released);
    job.images.note_push(index, *slice);
    if (!slice->bad_updates().empty()) note_bad_updates(job, *slice);
    add(released, job, *slice, out);
  }
  follow_checkpoint(job);
  serve_logged(job, out);
  note_settling(job);
  note_backed(job, out);
  show_kept(job, out);
  failpoint("revision adopted");
  return out.take();
}

std::optional<Shard::MovingSlack> Shard::moving_slack() const {
  for (const auto& [id, job] : jobs_) {
    if (const auto slack = job.slack->moving()) return MovingSlack{id, *slack};
  }
  return std::nullopt;
}

std::optional<JobPositions> Shard::positions() const {
  if (jobs_.empty()) return std::nullopt;
  const auto& [id, job] = *jobs_.rbegin();
  JobPositions all{id, Clock::never(), {}};
  const Slack slack = job.slack->moving().value_or(job.view->slack);
  for (const auto& [index, slice] : job.slices) {
    if (!slice->is_written()) continue;
    all.version = std::min(all.version, slice->version());
    for (const Member& member : job.view->membership.members()) {
      if (member.fenced || member.leave != Clock::never()) continue;
      const SliceState::Position here = slice->position(member.worker, slack);
      const auto [entry, added] = all.members.try_emplace(member.worker, here);
      if (!added && here.clock < entry->second.clock) entry->second = here;
    }
  }
  if (all.members.empty()) return std::nullopt;
  return all;
}

ShardReport Shard::report(JobId id) const {
  ShardReport report;
  report.job = id;
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return report;
  const JobState& job = found->second;
  report.revision = job.view->revision;
  report.settling = job.settling;
  report.error = job.error;
  report.bad_updates = job.bad_updates;
  for (const auto& [shard, copy] : job.copies) {
    report.copies.push_back({shard, copy.choice(), copy.is_complete()});
    if (copy.problem().empty()) continue;
    report.problems.push_back({shard, copy.term(), copy.choice(), copy.problem()});
  }
  for (const ImageSender::Problem& one : job.images.problems()) report.problems.push_back(one);
  for (const auto& [index, slice] : job.slices) {
    report.max_done = std::max(report.max_done, slice->gate().highest_due());
  }
  // A host that serves no shard holds no worker back.
  const bool may_hold_back = job.tables.empty() && !job.served.empty();
  if (!may_hold_back) report.min_version = Clock::never();
  for (const auto& [index, slice] : job.slices) {
    if (!slice->is_written()) continue;
    report.min_version = std::min(report.min_version, slice->version());
    // Members that are forgotten by now may have raised it.
    report.max_done = std::max(report.max_done, slice->version());
  }
  for (const Member& member : job.view->membership.members()) {
    // No worker pushes before the tables are open everywhere.
    Clock lowest = may_hold_back ? member.join : Clock::never();
    for (const auto& [index, slice] : job.slices) {
      const Clock done =
          std::max(slice->done(member.worker), job.images.logged(index, member.worker));
      lowest = std::min(lowest, done);
      if (done > member.join) report.max_done = std::max(report.max_done, done);
    }
    if (member.fenced) report.fenced.emplace(member.worker, lowest);
  }
  report.min_version = std::min(report.min_version, lowest_unsafe(job));
  return report;
}

}  // namespace taut::server
