#include <fmt/format.h>

#include <algorithm>

#include "lab/nodes.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/settle_compression.hpp"
#include "worker/client/row_parts.hpp"

namespace taut::sim {
namespace {

// As in a daemon by default.
constexpr Duration kSilence = std::chrono::seconds(30);

ControlIdentity identity(const Plan& plan, std::uint32_t number, std::uint64_t session) {
  ControlIdentity identity;
  identity.role = pb::ROLE_WORKER;
  // A program is for its job alone.
  if (plan.job.is_seeded) identity.job = kToyJobId;
  identity.name = fmt::format("worker{}", number);
  identity.session = session;
  return identity;
}

}  // namespace

WorkerNode::WorkerNode(World& world, std::uint32_t number, std::uint64_t session)
    : ControlNode(world.network, world.plan.worker_node(number),
                  identity(world.plan, number, session), control_timings(world.plan)),
      world_(world),
      random_(Random::mix(world.plan.seed) ^ session),
      number_(number) {}

Event WorkerNode::event_of(Event::Kind kind, TimePoint now) const {
  Event event;
  event.kind = kind;
  event.at = now;
  event.worker = member_;
  event.incarnation = incarnation_;
  event.clock = clock_;
  return event;
}

void WorkerNode::on_event(const ControlEvent& event, TimePoint now) {
  if (std::holds_alternative<control_event::DeclaredLost>(event)) stop();
  if (std::holds_alternative<control_event::Leave>(event)) leaves_ = true;
  // The job has not been submitted yet, or has ended: a program ends, and is started again.
  if (std::holds_alternative<control_event::Refused>(event)) is_refused_ = true;
  const auto* job = std::get_if<pb::WorkerJob>(&event);
  if (job == nullptr) return;
  if (JobId(job->job()) != kToyJobId) {
    // As in a daemon: repeated orders for a job that it has ended change nothing.
    const std::pair life(job->job(), job->incarnation());
    if (ended_preempting_jobs_.contains(life) || (job->stop() && preempting_job_ != life)) return;
    preempting_job_ = life;
    serve_preempting_job(*job);
    return;
  }
  const Incarnation incarnation(job->incarnation());
  if (protocol_ && incarnation == incarnation_) {
    shares_->take(*job);
    last_clocks_->take(*job);
  }
  revision_ = job->revision();
  if (protocol_ && incarnation == incarnation_) {
    if (job->stop()) {
      stop();
    } else {
      leaves_job_ = job->leaves();
      move_shards(*job, now);
    }
  } else if (!job->stop() && incarnation != incarnation_) {
    begin(*job, now);
  }
  if (job->has_checkpoint() && job->checkpoint().number() > order_.number()) {
    order_ = job->checkpoint();
    owes_part_ = true;
  }
}

void WorkerNode::stop() {
  protocol_.reset();
  if (data_) world_.network.close(*data_);
  data_.reset();
}

/// Nothing is computed for a job that only takes workers away.
void WorkerNode::serve_preempting_job(const pb::WorkerJob& job) {
  stop();
  pb::Heartbeat content;
  pb::Progress& progress = *content.mutable_progress();
  progress.set_job(job.job());
  progress.set_revision(job.revision());
  progress.set_incarnation(job.incarnation());
  progress.set_clock(job.start_clock());
  progress.set_finished(job.stop());
  report(std::move(content), true);
}

void WorkerNode::begin(const pb::WorkerJob& job, TimePoint now) {
  stop();
  if (preempting_job_) ended_preempting_jobs_.insert(*std::exchange(preempting_job_, std::nullopt));
  leaves_job_ = job.leaves();
  incarnation_ = Incarnation(job.incarnation());
  job_ = job.job();
  member_ = WorkerId(job.worker());
  // More than the toy job distinguishes: something keeps them from training.
  if (member_.value() >= kMembers) {
    world_.history.add(event_of(Event::Kind::kFailed, now));
    return;
  }
  silence_ = world_.plan.daemon_limits ? from_seconds(job.silence_limit_s()) : kSilence;
  clock_ = begun_at_ = Clock(job.start_clock());
  shares_ = std::make_unique<ShareOrders>();
  shares_->take(job);
  last_clocks_ = std::make_unique<LastClocks>();
  last_clocks_->take(job);
  computed_s_ = 0;
  records_ = 0;
  data_ = world_.network.open(node_);
  shard_of_.clear();
  peer_of_.clear();
  std::vector<ShardId> shards;
  for (const pb::ShardInfo& shard : job.shards()) {
    connect(shard);
    shards.emplace_back(shard.shard());
  }
  protocol_ = std::make_unique<ClientProtocol>(
      ClientIdentity{JobId(job.job()), member_, incarnation_, job_hash(job.definition()),
                     job.replicated(), Bytes(job.kept_bytes())},
      shards, world_.plan.resend,
      // Every other worker has a window of one update, so that both variants are tested.
      SendPolicy{SendOrder::kFrontFirst, Bytes(member_.value() % 2 == 0 ? 4UL << 20U : 1)},
      kSliceElements);
  for (const pb::ShardInfo& shard : job.shards()) {
    (void)protocol_->move(ShardId(shard.shard()), shard.term(), now);
  }
  const auto tables = tables_ = toy_tables(world_.plan.job);
  const Compression compression = to_compression(job.definition()).value();
  encoder_ = std::make_unique<UpdateEncoder>(
      UpdateEncoding{compression, job.definition().seed(), job.slot()});
  encoder_->open(tables, SliceLayout(tables, shards, kSliceElements));
  protocol_->open(tables, compression);
  computing_until_.reset();
  order_.Clear();
  part_.Clear();
  owes_part_ = false;
  reported_part_ = 0;
  finished_ = failed_ = false;
  values_.clear();
  for (const TableSpec& table : tables) values_.emplace_back(table.rows ? 0 : table.count());
  rows_.assign(tables.size(), {});
  waiting_.assign(tables.size(), false);
  waits_ = 0;
  waits_from_ = now;
  reached_ = Clock::never();
  world_.history.add(event_of(Event::Kind::kReadsFrom, now));
  // Initial values are pushed without a prior read.
  if (world_.plan.job.is_seeded && clock_ == Clock(0)) return;
  for (const TableSpec& table : tables) ask(table.id, now);
}

void WorkerNode::connect(const pb::ShardInfo& shard) {
  const PeerId peer = world_.network.connect(*data_, shard.address());
  shard_of_[peer] = ShardId(shard.shard());
  peer_of_[ShardId(shard.shard())] = peer;
}

void WorkerNode::move_shards(const pb::WorkerJob& job, TimePoint now) {
  for (const pb::ShardInfo& shard : job.shards()) {
    const ShardId id(shard.shard());
    if (!protocol_->move(id, shard.term(), now)) continue;
    shard_of_.erase(peer_of_.at(id));
    connect(shard);
  }
}

void WorkerNode::ask(TableId table, TimePoint now) {
  Event event = event_of(Event::Kind::kReading, now);
  event.table = table;
  waiting_[table.value()] = true;
  ++waits_;
  if (tables_[table.value()].rows) {
    ask_rows(tables_[table.value()], event);
    return;
  }
  world_.history.add(event);
  protocol_->read(table, clock_, values_[table.value()]);
}

void WorkerNode::ask_rows(const TableSpec& table, Event event) {
  std::vector<std::uint64_t>& rows = rows_[table.id.value()];
  rows = rows_read(*world_.plan.job.rows_of(table.id), table.id, member_, clock_);
  world_.history.add(event, {}, rows);
  std::vector<float>& values = values_[table.id.value()];
  values.assign(rows.size() * table.width(), 0.0F);
  protocol_->read_rows(table.id, clock_, split_read(table, rows, world_.pool).value(), values);
}

void WorkerNode::push_rows(const TableSpec& table, Event event) {
  const Clock clock = event.clock;
  const auto rows = rows_pushed(*world_.plan.job.rows_of(table.id), table.id, member_, clock);
  std::vector<float> gradients(rows.size() * table.width());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    toy_row_update(table.id, rows[i], member_, clock,
                   std::span(gradients).subspan(i * table.width(), table.width()));
  }
  world_.history.add(event, {}, rows);
  if (clock_ != Clock(world_.plan.job.clocks)) ask(table.id, event.at);
  const float weight = world_.plan.job.balance ? shares_->weight(clock) : 1.0F;
  protocol_->push(table.id,
                  split_push(table, clock, rows, gradients, 0, weight, world_.pool).value());
}

void WorkerNode::on_data(SocketId socket, PeerId from, DataMessage message, TimePoint now) {
  if (!protocol_ || socket != data_) return;
  const auto shard = shard_of_.find(from);
  if (shard == shard_of_.end()) return;  // a host that it no longer uses
  protocol_->handle(shard->second, message, now);
  for (const CompletedRead& read : protocol_->take_completed()) take(read, now);
}

void WorkerNode::take(const CompletedRead& read, TimePoint now) {
  if (!waiting_[read.table.value()]) return;
  Event event = event_of(Event::Kind::kRead, now);
  event.table = read.table;
  event.clock = read.clock;
  event.version = read.version;
  world_.history.add(event, values_[read.table.value()], rows_[read.table.value()]);
  waiting_[read.table.value()] = false;
  reached_ = std::min(reached_, read.version);
  if (--waits_ > 0) return;
  // With backup workers others may have ended the clocks in between.
  clock_ = std::max(clock_, std::min(reached_, Clock(world_.plan.job.clocks)));
  reached_ = Clock::never();
}

bool WorkerNode::owes_rest() const {
  return encoder_->leaves_out() && !encoder_->sends_rest();
}

/// Takes this worker's part of the clock's batch; false if the clock is held.
bool WorkerNode::begins_clock() {
  if (world_.plan.job.balance) {
    const auto begun = shares_->begin(clock_).value();
    if (!begun) return false;
    part_of_batch_ = *begun;
  }
  // It passes all clocks between two pushes at once.
  return last_clocks_->begin(world_.plan.job.next_push(clock_));
}

void WorkerNode::finish_clock(TimePoint now) {
  computing_until_.reset();
  records_ += part_of_batch_.records;
  if (leaves()) encoder_->send_rest();
  const Clock end(world_.plan.job.clocks);
  // A program's last clocks may have no meeting.
  const Clock pushed = std::min(world_.plan.job.next_push(clock_), end - 1);
  clock_ = pushed.next();
  // The last layer's gradient is ready first.
  for (std::uint32_t i = world_.plan.job.table_count(); i-- > 0;) {
    if (!world_.plan.job.schedule_of(i).pushes_at(pushed)) continue;
    Event event = event_of(Event::Kind::kPushed, now);
    event.clock = pushed;
    event.table = TableId(i);
    if (world_.plan.job.balance) {
      event.first_record = static_cast<std::uint32_t>(part_of_batch_.first);
      event.records = part_of_batch_.records;
    }
    if (tables_[i].rows) {
      push_rows(tables_[i], event);
      continue;
    }
    Buffer gradient = world_.pool.acquire(values_[i].size() * sizeof(float));
    for (std::uint32_t slice = 0; slice < world_.plan.job.slices; ++slice) {
      const auto part =
          gradient.floats().subspan(std::size_t{slice} * kSliceElements, kSliceElements);
      if (pushed < Clock(world_.plan.job.first_step())) {
        toy_seed(TableId(i), SliceId(slice), member_, part);
      } else {
        toy_update(TableId(i), SliceId(slice), member_, pushed, part);
      }
    }
    world_.history.add(event);
    // The read comes first, as in the client: the protocol joins it to its push.
    if (clock_ != end) ask(TableId(i), now);
    std::vector<Update> updates = encoder_->encode(TableId(i), pushed, gradient, 0, world_.pool);
    if (world_.plan.job.balance) {
      for (Update& update : updates) update.weight = shares_->weight(pushed);
    }
    protocol_->push(TableId(i), std::move(updates));
  }
}

void WorkerNode::step(TimePoint now) {
  if (protocol_) {
    if (computing_until_ && now >= *computing_until_) finish_clock(now);
    const bool continues = !leaves() || owes_rest();
    if (continues && !computing_until_ && waits_ == 0 && clock_ < Clock(world_.plan.job.clocks) &&
        begins_clock()) {
      const Plan& plan = world_.plan;
      const std::int64_t clocks = plan.job.next_push(clock_).next() - clock_;
      const std::int64_t factor = clocks * (number_ == plan.slow_worker ? plan.slowness : 1);
      Duration compute(factor *
                       random_.between(plan.compute_min.count(), plan.compute_max.count()));
      if (plan.job.balance) compute = compute * part_of_batch_.records / kToyBatch;
      computed_s_ += seconds(compute);
      computing_until_ = now + compute;
    }
    if (now >= next_tick_) {
      protocol_->tick(now);
      next_tick_ = now + world_.plan.resend.min / 2;
    }
    for (auto& [shard, message] : protocol_->take_outgoing(now)) {
      world_.network.send(*data_, peer_of_.at(shard), std::move(message));
    }
    note_progress(now);
    if (gives_up(now)) give_up();
  }
  ControlNode::step(now);
}

/// Whether a shard that it waits for has been silent for longer than its limit. It checks rarely,
/// so it may count two waits as one if no shard was heard in between.
bool WorkerNode::gives_up(TimePoint now) {
  if (waits_ == 0 && protocol_->unsettled() == 0) waits_from_ = now;
  if (now < next_look_) return false;
  next_look_ = now + silence_ / 300;
  const auto silence = protocol_->longest_silence();
  if (!silence) waits_from_ = now;
  if (!silence || waits_from_ == now) return false;
  const TimePoint from = std::max(waits_from_, silence->since.value_or(waits_from_));
  return now - from >= silence_;
}

/// Its place in the job, for a report.
pb::Heartbeat WorkerNode::place() const {
  pb::Heartbeat content;
  pb::Progress& progress = *content.mutable_progress();
  progress.set_job(job_);
  progress.set_revision(revision_);
  progress.set_incarnation(incarnation_.value());
  progress.set_clock(clock_.value());
  return content;
}

/// It reports why, and then its process ends.
void WorkerNode::give_up() {
  pb::Heartbeat content = place();
  content.mutable_progress()->set_error("a shard has not answered");
  report(std::move(content), true);
  stop();
  has_given_up_ = true;
}

/// Its part of a checkpoint, which only this process has, is written only at the order's clock;
/// afterwards it is too late. It passes all clocks between two pushes at once.
void WorkerNode::serve_checkpoint() {
  if (!owes_part_ || world_.plan.job.next_push(clock_).value() < order_.clock()) return;
  owes_part_ = false;
  part_.Clear();
  part_.set_number(order_.number());
  const bool is_late = clock_.value() > order_.clock();
  part_.set_missed(is_late);
  part_.set_written(!is_late);
}

void WorkerNode::note_progress(TimePoint now) {
  serve_checkpoint();
  if (protocol_->failure() && !failed_) {
    failed_ = true;
    world_.history.add(event_of(Event::Kind::kFailed, now));
  }
  // A program may join a job when the other members have done all of their clocks.
  const bool is_at_end = clock_ >= Clock(world_.plan.job.clocks);
  const bool is_through = is_at_end || (leaves() && !computing_until_ && !owes_rest());
  if (is_through) protocol_->settle();
  const bool finished = is_through && protocol_->unsettled() == 0;
  if (finished && !finished_ && is_at_end)
    world_.history.add(event_of(Event::Kind::kFinished, now));
  const bool urgent =
      finished != finished_ || revision_ != reported_revision_ || part_.number() != reported_part_;
  if (!urgent && clock_ == reported_clock_) return;
  finished_ = finished;
  reported_revision_ = revision_;
  reported_part_ = part_.number();
  reported_clock_ = clock_;
  pb::Heartbeat content = place();
  pb::Progress& progress = *content.mutable_progress();
  progress.set_images(records_);
  progress.set_compute_s(computed_s_);
  if (world_.plan.clocks_of_start > 0 && clock_ > begun_at_) {
    progress.set_seconds_to_first_iteration(1);
    progress.set_trained_s(static_cast<double>(clock_ - begun_at_) /
                           static_cast<double>(world_.plan.clocks_of_start));
  }
  shares_->report(progress);
  last_clocks_->report(progress);
  progress.set_finished(finished && is_at_end);
  // A program that has finished leaves: the job ends with its members, not at a clock.
  const bool leaves_at_end = world_.plan.job.is_seeded && is_at_end;
  progress.set_left(finished && (leaves_at_end || !is_at_end));
  if (part_.number() > 0) *progress.mutable_checkpoint() = part_;
  report(std::move(content), urgent);
  if (finished && leaves_at_end) hand_over();
}

Node::Return WorkerNode::returns() const {
  if (is_refused_ || has_given_up_) return Return::kSoon;
  const bool has_finished = finished_ && clock_ >= Clock(world_.plan.job.clocks);
  return world_.plan.job.is_seeded && has_finished ? Return::kNever : Return::kAsDrained;
}

TimePoint WorkerNode::wake() const {
  TimePoint wake = ControlNode::wake();
  if (!protocol_) return wake;
  if (computing_until_) wake = std::min(wake, *computing_until_);
  // While it computes and owes nothing, there is nothing to repeat.
  const bool waits = waits_ > 0 || protocol_->unsettled() > 0;
  return waits ? std::min(wake, next_tick_) : wake;
}

}  // namespace taut::sim
