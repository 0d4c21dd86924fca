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
  static constexpr const char* kFillers[] = {"constant", "uniform", "gaussian"};
  const std::string origin =
      table.origin ? fmt::format("; from byte {} of {} with SHA-256 {:.12}", table.origin->offset,
                                 table.origin->file, table.origin->sha256)
                   : "";
  return fmt::format(
      "table {} \"{}\" of {} elements ({}; {}; {} {}, {}; lr_mult {}; decay_mult {}{})",
      table.id.value(), table.name, table.count(), fmt::join(table.shape, "x"),
      kKinds[static_cast<std::size_t>(table.kind)],
      kFillers[static_cast<std::size_t>(table.filler.kind)], table.filler.a, table.filler.b,
      table.lr_mult, table.decay_mult, origin);
}

/// The first digits of a hash that a peer sent, where it is one: other bytes are no text.
std::string short_hash(const std::string& hash) {
  const bool hex = !hash.empty() && std::ranges::all_of(hash, [](unsigned char digit) {
    return std::isxdigit(digit) != 0;
  });
  return hex ? hash.substr(0, 12) : fmt::format("({} bytes that are no hash)", hash.size());
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

std::vector<Outgoing> Shard::handle(PeerId from, DataMessage message) {
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
  job.layout = SliceLayout(tables, job.view->shards, slice_elements_);
  for (const Slice& slice : job.layout.slices()) {
    if (slice.shard != job.id) continue;
    const TableSpec& table = tables[slice.table.value()];
    auto& state = job.slices[job.layout.index_of(slice.table, slice.slice)];
    state = std::make_unique<SliceState>(table, slice, *job.view, pool_);
    if (table.origin) {
      TAUT_TRY(begin_from_file(job, table, *state));
    }
  }
  job.tables = std::move(tables);
  return ok();
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
      out.add(from, refuse(item, pb::DataItem::HELD, "the job's epoch is being changed"));
      return;
    }
    std::vector<Answer> released;
    const PushVerdict verdict = slice.push(
        message.worker, item.clock, item.payload,
        math::update_scale(view.rule, item.gradient_norm, slice.decay_mult()), view, released);
    for (const Answer& answer : released) out.add(answer, *place);
    if (verdict == PushVerdict::kAhead) {
      DataItem reply = refuse(item, pb::DataItem::OUT_OF_ORDER, "earlier updates are missing");
      reply.done = slice.done(message.worker);
      out.add(from, std::move(reply));
      return;
    }
    read_clock = item.clock.next();
  }
  if (item.kind != pb::DataItem::PUSH) {
    if (auto answer = slice.read({from, message.worker, read_clock}, view)) {
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

std::vector<Outgoing> Shard::set_job(const std::shared_ptr<const JobView>& view) {
  if (view->finished) {
    jobs_.erase(view->job);
    return {};
  }
  auto [entry, added] = jobs_.try_emplace(view->job);
  JobState& job = entry->second;
  if (!added && job.view->revision >= view->revision) return {};
  if (added) job.id = id_;
  job.view = view;
  Outbox out(view->job);
  std::vector<Answer> released;
  for (auto& [index, slice] : job.slices) {
    released.clear();
    slice->update(*view, released);
    for (const Answer& answer : released) out.add(answer, slice->place());
  }
  return out.take();
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
