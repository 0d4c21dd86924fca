#include "server/shard.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <new>
#include <utility>

#include "proto/job_state.hpp"
#include "proto/wire_version.hpp"

namespace taut::server {
namespace {

// Peers are remembered up to this number; the oldest must then say hello again.
constexpr std::size_t kMaxGreeted = 65536;

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

std::string describe(const TableSpec& table) {
  static constexpr const char* kKinds[] = {"trained", "averaged", "frozen"};
  static constexpr const char* kFillers[] = {"constant", "uniform", "gaussian", "bilinear"};
  const std::string sparse =
      table.filler.sparse >= 0 ? fmt::format(" sparse {}", table.filler.sparse) : "";
  const std::string origin =
      table.origin ? fmt::format("; from byte {} of {} with SHA-256 {:.12}", table.origin->offset,
                                 table.origin->file, table.origin->sha256)
                   : "";
  return fmt::format(
      "table {} \"{}\" of {} elements ({}; {}; {} {}, {}{}; lr_mult {}; decay_mult {}{})",
      table.id.value(), table.name, table.count(), fmt::join(table.shape, "x"),
      kKinds[static_cast<std::size_t>(table.kind)],
      kFillers[static_cast<std::size_t>(table.filler.kind)], table.filler.a, table.filler.b, sparse,
      table.lr_mult, table.decay_mult, origin);
}

/// The first digits of a hash that a peer sent, where it is one: other bytes are no text.
std::string short_hash(const std::string& hash) {
  const bool hex = !hash.empty() && std::ranges::all_of(hash, [](unsigned char digit) {
    return std::isxdigit(digit) != 0;
  });
  return hex ? hash.substr(0, 12) : fmt::format("({} bytes that are no hash)", hash.size());
}

/// Why tables cannot begin with those of a checkpoint; empty: they can. How they learn may differ.
std::string resume_difference(const std::vector<TableSpec>& saved,
                              const std::vector<TableSpec>& wanted) {
  if (saved.size() != wanted.size()) {
    return fmt::format("the checkpoint holds {} tables, the job's net has {}", saved.size(),
                       wanted.size());
  }
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const TableSpec& a = saved[i];
    const TableSpec& b = wanted[i];
    if (a.name == b.name && a.shape == b.shape && a.kind == b.kind) continue;
    return fmt::format("the checkpoint holds table \"{}\" of {}, the job's net has \"{}\" of {}",
                       a.name, fmt::join(a.shape, "x"), b.name, fmt::join(b.shape, "x"));
  }
  return {};
}

/// The first difference between two descriptions of a job's tables, or nothing.
std::string difference(const std::vector<TableSpec>& ours, const std::vector<TableSpec>& theirs) {
  if (ours.size() != theirs.size()) {
    return fmt::format("{} tables were opened, you name {}", ours.size(), theirs.size());
  }
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!(ours[i] == theirs[i])) {
      return fmt::format("opened was {}, you name {}", describe(ours[i]), describe(theirs[i]));
    }
  }
  return {};
}

}  // namespace

/// Gathers what is answered, so that each peer gets one message.
class Shard::Outbox {
 public:
  explicit Outbox(JobId job) : job_(job) {}

  void add(PeerId to, DataItem item) {
    auto found = std::ranges::find_if(batches_, [to](const auto& batch) {
      return batch.first == to && batch.second.items.size() < DataItems::kMaxItems;
    });
    if (found == batches_.end()) found = batches_.insert(batches_.end(), {to, {}});
    found->second.items.push_back(std::move(item));
  }
  void add(const Answer& answer, const Slice& place, DataItem::Kind kind = pb::DataItem::VALUE) {
    DataItem item;
    item.kind = kind;
    item.table = place.table;
    item.slice = place.slice;
    item.offset = place.offset;
    item.count = place.count;
    item.clock = answer.reader.clock;
    item.version = answer.version;
    item.done = answer.done;
    item.payload = answer.values;
    add(answer.reader.peer, std::move(item));
  }
  [[nodiscard]] std::vector<Outgoing> take() {
    std::vector<Outgoing> messages;
    for (auto& [to, batch] : batches_) {
      messages.push_back({to, DataMessage{job_, WorkerId(), Incarnation(), std::move(batch)}});
    }
    return messages;
  }

 private:
  JobId job_;
  std::vector<std::pair<PeerId, DataItems>> batches_;
};

/// Counts what waits at a slice anew when what is done to it is over.
class Shard::QueueCount {
 public:
  QueueCount(ShardQueues& queues, const SliceState& slice) : queues_(queues), slice_(slice) {
    forget(queues_, slice_);
  }
  ~QueueCount() {
    queues_.parked_reads += slice_.parked();
    queues_.held_updates += slice_.held();
    queues_.held_bytes += slice_.held() * slice_.place().count * sizeof(float);
  }
  QueueCount(const QueueCount&) = delete;
  QueueCount& operator=(const QueueCount&) = delete;

  static void forget(ShardQueues& queues, const SliceState& slice) {
    queues.parked_reads -= slice.parked();
    queues.held_updates -= slice.held();
    queues.held_bytes -= slice.held() * slice.place().count * sizeof(float);
  }

 private:
  ShardQueues& queues_;
  const SliceState& slice_;
};

std::vector<Outgoing> Shard::handle(PeerId from, DataMessage message, TimePoint now) {
  now_ = now;
  give_way();
  if (const auto* hello = std::get_if<pb::DataHello>(&message.body)) {
    return {{from, greet(from, message, *hello)}};
  }
  if (!greeted_.contains(from)) {
    pb::DataHelloReply reply;
    reply.set_wire_version(kWireVersion);
    reply.set_build(build_name());
    reply.set_reason("say hello first");
    reply.set_greet_again(true);
    return {{from, DataMessage{message.job, {}, {}, std::move(reply)}}};
  }
  if (const auto* wanted = std::get_if<pb::OpenTables>(&message.body)) {
    return {{from, open(message, *wanted)}};
  }
  if (const auto* batch = std::get_if<DataItems>(&message.body)) {
    Outbox out(message.job);
    serve(from, message, *batch, out);
    return out.take();
  }
  return {};
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
  } else if (job->second.view->hash != hello.job_hash()) {
    reply.set_job_hash(job->second.view->hash);
    reply.set_reason(fmt::format("job {} is {} here and {} there: the definitions differ",
                                 message.job.value(), short_hash(job->second.view->hash),
                                 short_hash(hello.job_hash())));
  } else {
    if (greeted_.size() >= kMaxGreeted) greeted_.erase(greeted_.begin());
    greeted_.insert(from);
    reply.set_job_hash(job->second.view->hash);
    reply.set_accepted(true);
  }
  return DataMessage{message.job, {}, {}, std::move(reply)};
}

DataMessage Shard::open(const DataMessage& message, const pb::OpenTables& wanted) {
  const auto answer = [&](std::string reason) {
    pb::OpenTablesReply reply;
    reply.set_accepted(reason.empty());
    reply.set_reason(std::move(reason));
    return DataMessage{message.job, {}, {}, std::move(reply)};
  };
  const auto job = jobs_.find(message.job);
  if (job == jobs_.end()) return answer(fmt::format("job {} is unknown", message.job.value()));
  std::vector<TableSpec> tables;
  for (const pb::TableSpec& wire : wanted.tables()) {
    auto table = from_wire(wire);
    if (!table) return answer(table.error().message);
    if (wire.table() != tables.size()) {
      return answer(fmt::format("table {} stands at place {}", wire.table(), tables.size()));
    }
    table.value().id = TableId(wire.table());
    tables.push_back(std::move(table.value()));
  }
  if (tables.empty()) return answer("no tables are named");
  if (!job->second.tables.empty()) return answer(difference(job->second.tables, tables));
  if (!job->second.begin.tables.empty()) {
    const std::string differ = resume_difference(job->second.begin.tables, tables);
    if (!differ.empty()) return answer(differ);
  }
  std::string problem;
  try {
    const auto created = create_slices(job->second, std::move(tables));
    if (!created) problem = created.error().message;
  } catch (const std::bad_alloc&) {
    problem = fmt::format("shard {} has no memory for its part of the tables", id_.value());
  }
  if (!problem.empty()) {
    job->second.slices.clear();
    job->second.tables.clear();
    job->second.memory = {};
    job->second.prepared = 0;
    return_spares(job->second);
  }
  return answer(std::move(problem));
}

Result<void> Shard::begin_from_file(const JobState& job, const TableSpec& table,
                                    SliceState& slice) {
  const TensorPlace& origin = *table.origin;
  if (initial_ == nullptr ||
      std::ranges::find(job.view->weights, origin.file) == job.view->weights.end()) {
    return invalid(fmt::format("table \"{}\" begins with {}, which the job's weights do not name",
                               table.name, origin.file));
  }
  return initial_->read(origin, slice.place().offset, slice.initial_values());
}

Result<void> Shard::create_slices(JobState& job, std::vector<TableSpec> tables) {
  if (memory_) {
    // Before anything is cut, as a list of slices is long itself.
    TAUT_TRY(memory_->check(even_needs(tables, *job.view)));
  }
  job.layout = SliceLayout(tables, job.view->shards, slice_elements_);
  const std::vector<TableNeed> needs = needs_at(job.id, job.layout, tables, *job.view);
  if (memory_) {
    TAUT_TRY(job.memory, memory_->take(needs));
    give_way();
  }
  for (const Slice& slice : job.layout.slices()) {
    if (slice.shard != job.id) continue;
    const TableSpec& table = tables[slice.table.value()];
    const std::size_t index = job.layout.index_of(slice.table, slice.slice);
    const auto image = job.begin.slices.find(index);
    const SliceImage* begin = image == job.begin.slices.end() ? nullptr : &image->second;
    auto& state = job.slices[index];
    state = std::make_unique<SliceState>(table, slice, *job.view, pool_, begin, &images_);
    // What was saved takes the place of what the job began with.
    if (table.origin && begin == nullptr) {
      TAUT_TRY(begin_from_file(job, table, *state));
    }
  }
  job.begin = {};
  job.tables = std::move(tables);
  OpenedTables& opened = opened_.emplace_back(OpenedTables{job.view->job});
  for (const TableNeed& need : needs) {
    opened.bytes += need.bytes;
    opened.compensation += need.compensation;
  }
  begin_capture(job);
  return ok();
}

/// Starts over where the view has another order than before; a slice may be ready at once.
void Shard::begin_capture(JobState& job) {
  const CaptureOrder& order = job.view->checkpoint;
  if (order.number != job.capture.order.number) {
    job.capture = {job.view->job, job.id, order, false, {}, {}};
    job.captured = order.number == 0;
  }
  if (order.number == 0) return_spares(job);
  if (job.captured || job.tables.empty()) return;
  if (job.prepared != order.number) prepare_spares(job);
  for (auto& [index, slice] : job.slices) take_image(job, *slice);
  finish_capture(job);
}

void Shard::prepare_spares(JobState& job) {
  try {
    std::vector<const SliceState*> slices;
    for (const auto& [index, slice] : job.slices) slices.push_back(slice.get());
    if (auto stock = job.spares.prepare(slices, memory_)) {
      stocks_.push_back(std::move(*stock));
    } else {
      return_spares(job);
    }
    job.prepared = job.view->checkpoint.number;
  } catch (const std::bad_alloc&) {
    // The checkpoint can be made without; the next view of the job asks again.
  }
}

void Shard::return_spares(JobState& job) {
  if (auto surplus = job.spares.give_back()) surpluses_.push_back(std::move(*surplus));
}

void Shard::give_way() {
  if (!memory_ || !memory_->is_short()) return;
  for (auto& [id, job] : jobs_) return_spares(job);
}

void Shard::take_image(JobState& job, SliceState& slice) {
  if (slice.capture() == SliceState::Capture::kMissed) {
    job.capture.missed = true;
  } else if (slice.capture() == SliceState::Capture::kReady) {
    job.capture.slices.push_back(slice.take_image());
    if (slice.is_written()) job.spares.enough();
  }
}

void Shard::finish_capture(JobState& job) {
  if (job.captured) return;
  if (!job.capture.missed && job.capture.slices.size() < job.slices.size()) return;
  job.captured = true;
  if (job.capture.missed) job.capture.slices.clear();
  job.capture.tables = job.tables;
  captures_.push_back(job.capture);
  job.capture.slices.clear();
}

void Shard::serve(PeerId from, const DataMessage& message, const DataItems& batch, Outbox& out) {
  const auto job = jobs_.find(message.job);
  for (const DataItem& item : batch.items) {
    if (job == jobs_.end()) {
      out.add(from, refuse(item, pb::DataItem::UNKNOWN_JOB,
                           fmt::format("job {} is unknown", message.job.value())));
    } else if (job->second.tables.empty()) {
      out.add(from, refuse(item, pb::DataItem::NOT_OPEN, "no tables are open"));
    } else {
      serve_item(from, message, item, job->second, out);
    }
  }
}

void Shard::serve_item(PeerId from, const DataMessage& message, const DataItem& item, JobState& job,
                       Outbox& out) {
  const JobView& view = *job.view;
  const Slice* place = job.layout.find(item.table, item.slice);
  if (place == nullptr || place->shard != job.id) {
    out.add(from, refuse(item, pb::DataItem::UNKNOWN_TABLE,
                         fmt::format("table {} slice {} is not on shard {}", item.table.value(),
                                     item.slice.value(), job.id.value())));
    return;
  }
  if (!is_push(item) && item.kind != pb::DataItem::READ && item.kind != pb::DataItem::SNAPSHOT) {
    out.add(from, refuse(item, pb::DataItem::BAD_RANGE, "this item is an answer, not a request"));
    return;
  }
  if (item.payload_lost) {
    out.add(from, refuse(item, pb::DataItem::BAD_RANGE,
                         "the payload lies in shared memory that was not agreed on"));
    return;
  }
  SliceState& slice = *job.slices.at(job.layout.index_of(item.table, item.slice));
  if (item.kind == pb::DataItem::SNAPSHOT) {
    out.add(slice.snapshot(from), *place, pb::DataItem::SNAPSHOT_VALUE);
    return;
  }
  const Member* member = view.membership.find(message.worker);
  if (member == nullptr) {
    out.add(from, refuse(item, pb::DataItem::NO_MEMBER,
                         fmt::format("worker {} is no member of job {}", message.worker.value(),
                                     view.job.value())));
    return;
  }
  if (member->fenced || member->incarnation != message.incarnation) {
    out.add(from, refuse(item, pb::DataItem::STALE_INCARNATION,
                         fmt::format("stale incarnation: worker {} incarnation {} was declared "
                                     "lost; join anew",
                                     message.worker.value(), message.incarnation.value())));
    return;
  }

  const QueueCount count(queues_, slice);
  Clock read_clock = item.clock;
  if (is_push(item)) {
    if (item.offset != place->offset || item.count != place->count) {
      out.add(from, refuse(item, pb::DataItem::BAD_RANGE,
                           fmt::format("table {} slice {} is [{}, +{}), not [{}, +{})",
                                       item.table.value(), item.slice.value(), place->offset,
                                       place->count, item.offset, item.count)));
      return;
    }
    if (item.clock >= view.hold_from && item.clock >= slice.done(message.worker)) {
      ++queues_.postponed_updates;
      out.add(from, refuse(item, pb::DataItem::HELD, "the job's epoch is being changed"));
      return;
    }
    std::vector<Answer> released;
    const std::uint64_t dropped_before = slice.dropped();
    const PushVerdict verdict = slice.push(
        message.worker, item.clock, item.payload,
        math::update_scale(view.rule, item.gradient_norm, slice.decay_mult()), view, released);
    for (const Answer& answer : released) out.add(answer, *place);
    if (!job.captured) {
      take_image(job, slice);
      finish_capture(job);
    }
    if (verdict == PushVerdict::kAhead) {
      ++queues_.postponed_updates;
      DataItem reply = refuse(item, pb::DataItem::OUT_OF_ORDER, "earlier updates are missing");
      reply.done = slice.done(message.worker);
      out.add(from, std::move(reply));
      return;
    }
    dropped_ += slice.dropped() - dropped_before;
    if (job.slack) job.slack->note_push(message.worker, item.clock, now_);
    read_clock = item.clock.next();
  }
  if (item.kind != pb::DataItem::PUSH) {
    const Slack slack =
        job.slack ? job.slack->slack_of_read(message.worker, read_clock) : view.slack;
    if (auto answer = slice.read({from, message.worker, read_clock}, view, slack)) {
      out.add(*answer, *place);
      return;
    }
  }
  if (is_push(item)) {
    DataItem ack = reply_to(item, pb::DataItem::ACK);
    ack.done = slice.done(message.worker);
    out.add(from, std::move(ack));
  }
}

std::vector<Outgoing> Shard::set_job(const std::shared_ptr<const JobView>& view,
                                     ShardImages begin) {
  if (view->finished) {
    const auto over = jobs_.find(view->job);
    if (over == jobs_.end()) return {};
    for (const auto& [index, slice] : over->second.slices) QueueCount::forget(queues_, *slice);
    // What the slices had comes onto the shelves first, and is given back with the rest.
    over->second.slices.clear();
    return_spares(over->second);
    jobs_.erase(over);
    return {};
  }
  auto [entry, added] = jobs_.try_emplace(view->job, pool_, images_);
  JobState& job = entry->second;
  if (!added && job.view->revision >= view->revision) return {};
  if (added) {
    job.id = id_;
    job.begin = std::move(begin);
  }
  job.view = view;
  if (view->policies.dynamic_slack) {
    if (!job.slack) job.slack.emplace(*view->policies.dynamic_slack);
    job.slack->set_members(view->membership);
  }
  Outbox out(view->job);
  std::vector<Answer> released;
  for (auto& [index, slice] : job.slices) {
    released.clear();
    const QueueCount count(queues_, *slice);
    slice->update(*view, released);
    for (const Answer& answer : released) out.add(answer, slice->place());
  }
  begin_capture(job);
  return out.take();
}

std::optional<Shard::MovingSlack> Shard::moving_slack() const {
  for (const auto& [id, job] : jobs_) {
    if (job.slack) return MovingSlack{id, job.slack->in_force()};
  }
  return std::nullopt;
}

ShardReport Shard::report(JobId id) const {
  ShardReport report;
  report.job = id;
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return report;
  const JobState& job = found->second;
  report.revision = job.view->revision;
  for (const Member& member : job.view->membership.members()) {
    // Nobody pushes before the tables are open everywhere.
    Clock lowest = job.tables.empty() ? member.join : Clock::never();
    for (const auto& [index, slice] : job.slices) {
      const Clock done = slice->done(member.worker);
      lowest = std::min(lowest, done);
      if (done > member.join) report.max_done = std::max(report.max_done, done);
    }
    if (member.fenced) report.fenced.emplace(member.worker, lowest);
  }
  return report;
}

}  // namespace taut::server
