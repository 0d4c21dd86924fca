#include "tests/unit/coordinator/fake_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/check.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/control_message.hpp"
#include "proto/rights.hpp"

namespace taut {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(10);
constexpr Duration kCoordinatorTick = std::chrono::milliseconds(100);
constexpr std::int64_t kNever = Clock::never().value();

const pb::Member* find_member(const pb::ServerJob& state, const pb::WorkerJob& job) {
  for (const pb::Member& member : state.members()) {
    if (member.incarnation() == job.incarnation() && member.worker() == job.worker()) {
      return &member;
    }
  }
  return nullptr;
}

}  // namespace

void FakeServer::take(const pb::ServerJob& state) {
  if (busy_) {
    waiting_[state.job()] = state;
  } else {
    apply(state);
  }
}

void FakeServer::set_busy(bool busy) {
  busy_ = busy;
  if (busy) return;
  for (const auto& [job, state] : waiting_) apply(state);
  waiting_.clear();
}

void FakeServer::apply(const pb::ServerJob& state) {
  Kept& kept = jobs_[state.job()];
  if (state.revision() <= kept.state.revision()) return;
  check(kept, state);
  kept.state = state;
  if (state.finished()) return;
  kept.clock.update(to_membership(state).value());
}

void FakeServer::check(const Kept& kept, const pb::ServerJob& next) {
  const auto expect = [this, &next](bool holds, const std::string& what) {
    if (!holds) broken.push_back(fmt::format("job {}: {}", next.job(), what));
  };
  if (next.finished()) return;
  for (const pb::Member& member : kept.state.members()) {
    const bool is_kept = std::ranges::any_of(
        next.members(), [&](const pb::Member& one) { return one.worker() == member.worker(); });
    expect(is_kept || Clock(member.leave_clock()) <= kept.clock.version(),
           fmt::format("worker {} is forgotten before V is past its clocks", member.worker()));
  }
  for (const pb::Member& member : next.members()) {
    const auto& before = kept.state.members();
    const auto known = std::find_if(before.begin(), before.end(), [&](const pb::Member& one) {
      return one.worker() == member.worker();
    });
    if (known == before.end()) {
      // The share of one that has left is taken over at its very clock, as long as V is not past
      // it.
      const bool takes_over =
          kept.clock.version() <= Clock(member.join_clock()) &&
          std::ranges::any_of(next.members(), [&member](const pb::Member& one) {
            return one.slot() == member.slot() && one.leave_clock() == member.join_clock();
          });
      expect(takes_over || kept.max_done <= member.join_clock(),
             fmt::format("worker {} joins at {}, but {} were pushed", member.worker(),
                         member.join_clock(), kept.max_done));
    } else if (known->leave_clock() == kNever && member.leave_clock() != kNever) {
      expect(known->fenced(), "a member leaves that was not fenced");
      expect(kept.clock.done(WorkerId(member.worker())) >= Clock(member.leave_clock()),
             "a member leaves after what it has pushed");
    }
  }
  for (int i = 1; i < next.modes_size(); ++i) {
    if (i < kept.state.modes_size() &&
        next.modes(i).first_clock() == kept.state.modes(i).first_clock()) {
      continue;
    }
    expect(kept.max_done <= next.modes(i).first_clock(), "the mode changes in the past");
  }
  expect(next.epoch() >= kept.state.epoch(), "the epoch falls");
}

bool FakeServer::may_read(const pb::WorkerJob& job, std::int64_t clock) const {
  const auto found = jobs_.find(job.job());
  if (found == jobs_.end() || found->second.state.finished()) return false;
  const Kept& kept = found->second;
  if (find_member(kept.state, job) == nullptr) return false;
  return taut::may_read(kept.clock.version(), kept.clock.done(WorkerId(job.worker())), Clock(clock),
                        Slack(kept.state.slack()));
}

bool FakeServer::push(const pb::WorkerJob& job, std::int64_t clock) {
  const auto found = jobs_.find(job.job());
  if (found == jobs_.end() || found->second.state.finished()) return false;
  Kept& kept = found->second;
  const pb::Member* member = find_member(kept.state, job);
  if (member == nullptr || member->fenced() || clock >= kept.state.hold_from()) return false;
  const WorkerId worker(job.worker());
  if (kept.clock.judge(worker, Clock(clock)) == PushVerdict::kAhead) return false;
  if (kept.clock.judge(worker, Clock(clock)) == PushVerdict::kAccept)
    kept.clock.accept(worker, Clock(clock));
  kept.max_done = std::max(kept.max_done, kept.clock.done(worker).value());
  return true;
}

pb::Heartbeat FakeServer::report() const {
  pb::Heartbeat heartbeat;
  for (const auto& [id, kept] : jobs_) {
    pb::ServerJobReply& reply = *heartbeat.add_jobs();
    reply.set_job(id);
    reply.set_revision(kept.state.revision());
    reply.set_max_done(kept.max_done);
    for (const auto& [worker, clocks] : bad_updates) {
      pb::BadUpdates& bad = *reply.add_bad_updates();
      bad.set_worker(worker);
      bad.set_clocks(clocks);
    }
    reply.set_min_version(kept.clock.version().value());
    reply.set_error(kept.state.finished() ? "" : refuses);
    for (const pb::Member& member : kept.state.members()) {
      if (!member.fenced() || kept.state.finished()) continue;
      pb::FencedProgress& fenced = *reply.add_fenced();
      fenced.set_worker(member.worker());
      fenced.set_min_done(kept.clock.done(WorkerId(member.worker())).value());
    }
    if (kept.state.has_checkpoint()) {
      report_checkpoint(kept, *reply.mutable_checkpoint());
    }
    report_copies(kept.state, reply);
  }
  return heartbeat;
}

/// For each shard whose images it must keep on its first host: its problem, or that it has them.
void FakeServer::report_copies(const pb::ServerJob& state, pb::ServerJobReply& reply) const {
  for (const pb::ShardInfo& shard : state.shards()) {
    for (const pb::ShardBackup& backup : shard.backups()) {
      if (backup.host() != state.first_shard()) continue;
      if (!memory.empty()) {
        pb::BackupProblem& problem = *reply.add_problems();
        problem.set_shard(shard.shard());
        problem.set_term(shard.term());
        problem.set_choice(backup.choice());
        problem.set_reason(memory);
      } else if (is_whole) {
        pb::ShardCopy& copy = *reply.add_copies();
        copy.set_shard(shard.shard());
        copy.set_choice(backup.choice());
        copy.set_complete(true);
      }
    }
  }
}

void FakeServer::report_checkpoint(const Kept& kept, pb::CheckpointPart& part) const {
  const pb::CheckpointOrder& order = kept.state.checkpoint();
  if (static_cast<int>(order.number()) <= late) {
    part.set_number(order.number());
    part.set_missed(true);
    return;
  }
  if (stalls || kept.clock.version() < Clock(order.clock())) return;
  part.set_number(order.number());
  part.set_error(disk);
  if (!disk.empty()) return;
  part.set_written(true);
  part.add_files()->set_name("shard" + std::to_string(kept.state.first_shard()));
  part.add_tables()->set_name("table");
}

const pb::ServerJob* FakeServer::state_of(std::uint64_t job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second.state;
}

bool FakeServer::has_finished(std::uint64_t job) const {
  const pb::ServerJob* state = state_of(job);
  return state != nullptr && state->finished();
}

void FakeWorker::take(const pb::WorkerJob& state) {
  if (!job_ || job_->job() != state.job() || job_->incarnation() != state.incarnation()) {
    shares_ = std::make_shared<ShareOrders>();
    last_clocks_ = std::make_shared<LastClocks>();
  }
  shares_->take(state);
  last_clocks_->take(state);
  job_ = state;
}

/// Whether it computes this clock, which a job that balances or is saved to end may hold.
bool FakeWorker::begins(std::int64_t clock) {
  if (pushed_.empty() && !last_clocks_->begin(Clock(clock))) return false;
  if (!job_->definition().balance() || part_) return true;
  part_ = shares_->begin(Clock(clock)).value();
  if (!part_) return false;
  parts_[clock] = *part_;
  progress_.set_images(progress_.images() + part_->records);
  progress_.set_compute_s(progress_.compute_s() + fixed_s + 0.001 * slowness * part_->records);
  return true;
}

void FakeWorker::step(const std::vector<FakeServer*>& servers) {
  if (!job_ || stuck) return;
  if (began_ != job_->job() || began_as_ != job_->incarnation()) {
    began_ = job_->job();
    began_as_ = job_->incarnation();
    progress_.Clear();
    progress_.set_clock(job_->start_clock());
    pushed_.clear();
  }
  progress_.set_job(job_->job());
  progress_.set_revision(job_->revision());
  progress_.set_incarnation(job_->incarnation());
  if (exchanges_at_workers(job_->definition()) && listens) {
    progress_.mutable_rank_place()->set_address(fmt::format("host:{}", 1000 + job_->worker()));
    progress_.mutable_rank_place()->set_broken(broken);
  }
  if (progress_.finished() || progress_.left() || !progress_.error().empty()) return;
  if ((leaves != Leaves::kNot || job_->leaves()) && pushed_.empty()) {
    progress_.set_left(true);
    progress_.set_finished(leaves == Leaves::kFinished);
    return;
  }
  progress_.set_error(fails);
  progress_.set_diverged(diverges);
  if (job_->stop()) progress_.set_finished(true);
  progress_.clear_measured();
  if (chooses_compression(job_->definition())) {
    if (measured) *progress_.mutable_measured() = *measured;
    return;
  }
  const std::int64_t clock = progress_.clock();
  const std::int64_t end = end_clock(job_->definition()).value();
  if (clock >= end && !job_->stop()) return finish();
  const auto allows = [&](FakeServer* server) { return server->may_read(*job_, clock); };
  if (job_->stop() || (pushed_.empty() && !std::all_of(servers.begin(), servers.end(), allows))) {
    return;
  }
  if (!begins(clock)) return;
  for (FakeServer* server : servers) {
    if (server->push(*job_, clock)) pushed_.insert(server);
  }
  // It may have pushed to one that is lost since then.
  const auto has = [&](FakeServer* server) { return pushed_.contains(server); };
  if (!std::ranges::all_of(servers, has)) return;
  pushed_.clear();
  part_.reset();
  progress_.set_clock(clock + 1);
  // Ten records in each clock, which takes a hundredth of a second.
  if (!job_->definition().balance()) progress_.set_images(progress_.images() + 10);
  progress_.set_images_per_second(1000);
  progress_.set_trained_s(progress_.trained_s() + 0.01);
  progress_.set_seconds_to_first_iteration(start_s);
  if (clock + 1 >= end) finish();
}

void FakeWorker::finish() {
  if (tests) return;
  progress_.set_finished(true);
  if (!job_->evaluates()) return;
  progress_.set_parameters_sha256("digest");
  pb::Evaluation& evaluation = *progress_.add_evaluations();
  evaluation.set_clock(progress_.clock());
  evaluation.set_accuracy(0.9);
}

pb::Heartbeat FakeWorker::report() const {
  pb::Heartbeat heartbeat;
  if (!job_) return heartbeat;
  *heartbeat.mutable_progress() = progress_;
  if (saved > 0) {
    heartbeat.mutable_progress()->mutable_checkpoint()->set_number(saved);
    heartbeat.mutable_progress()->mutable_checkpoint()->set_written(true);
  }
  if (silent) *heartbeat.mutable_progress()->mutable_silent() = *silent;
  shares_->report(*heartbeat.mutable_progress());
  last_clocks_->report(*heartbeat.mutable_progress());
  return heartbeat;
}

FakeCluster::FakeCluster(std::uint64_t seed, FakeNetwork network,
                         std::unique_ptr<CoordinatorStore> store)
    : store_(std::move(store)), network_(network), random_(seed) {
  coordinator_ = std::make_unique<Coordinator>(options, store_->load().value(), now_);
}

void FakeCluster::start(Process& process, ControlIdentity identity) {
  for (std::string& line : process.server.broken) broken_.push_back(std::move(line));
  process = Process();
  process.name = identity.name;
  process.role = identity.role;
  process.peer = PeerId(next_peer_++);
  identity.session = next_session_++;
  process.session = std::make_unique<ControlSession>(std::move(identity), ControlTimings(), now_);
}

FakeCluster::Process& FakeCluster::add_server(const std::string& name, std::size_t shards,
                                              std::uint64_t table_limit) {
  ControlIdentity identity;
  identity.table_limit_bytes = table_limit;
  identity.role = pb::ROLE_SERVER;
  identity.name = name;
  for (std::size_t i = 0; i < shards; ++i) {
    identity.shard_addresses.push_back(fmt::format("{}:{}", name, 7601 + i));
  }
  Process& process = processes_[name];
  start(process, std::move(identity));
  return process;
}

FakeCluster::Process& FakeCluster::add_worker(const std::string& name, std::uint64_t job) {
  ControlIdentity identity;
  identity.role = pb::ROLE_WORKER;
  identity.name = name;
  identity.device = "cpu";
  identity.job = JobId(job);
  Process& process = processes_[name];
  start(process, std::move(identity));
  return process;
}

FakeCluster::Process& FakeCluster::add_worker(const std::string& name, const Offer& offer) {
  ControlIdentity identity;
  identity.role = pb::ROLE_WORKER;
  identity.name = name;
  identity.host = offer.host;
  identity.memory_bytes = offer.memory;
  identity.devices = offer.devices;
  Process& process = processes_[name];
  start(process, std::move(identity));
  return process;
}

void FakeCluster::kill(const std::string& name) {
  processes_.at(name).session.reset();
}

FakeCluster::Process* FakeCluster::find(PeerId peer) {
  for (auto& [name, process] : processes_) {
    if (process.peer == peer && process.session) return &process;
  }
  return nullptr;
}

void FakeCluster::put(PeerId peer, bool to_coordinator, const pb::ControlMessage& message) {
  std::uniform_real_distribution<double> chance(0, 1);
  std::uniform_int_distribution<Duration::rep> delay(0, network_.delay_max.count());
  const int copies =
      (chance(random_) < network_.drop ? 0 : 1) + (chance(random_) < network_.duplicate ? 1 : 0);
  for (int i = 0; i < copies; ++i) {
    flights_.emplace(now_ + Duration(delay(random_)), Flight{peer, to_coordinator, message});
  }
}

void FakeCluster::deliver(const Flight& flight) {
  // Through the codec, so that what travels is what bytes can say.
  const pb::ControlMessage message = decode_control(encode(flight.message)).value();
  Process* process = find(flight.peer);
  if (process == nullptr || process->cut_off) return;
  if (!flight.to_coordinator) {
    carry_out(*process, process->session->handle(message, now_));
  } else if (coordinator_) {
    carry_out(coordinator_->handle(flight.peer, message, now_));
  }
}

void FakeCluster::carry_out(const CoordinatorOutput& output) {
  if (!output.changes.empty()) TAUT_CHECK(store_->save(output.changes).has_value(), "saved");
  for (const CoordinatorMessage& outgoing : output.messages) {
    put(outgoing.to, false, outgoing.message);
  }
  for (const Note& note : output.notes) notes.push_back(note.text);
  for (const CheckpointTask& task : output.tasks) {
    tasks.push_back(task);
    CheckpointTask done = task;
    if (task.manifest.has_coding()) {
      done.manifest_sha256 = "of order " + std::to_string(task.number);
      done.tried = task.folder;
    }
    for (PartRemoval& one : done.removals) one.failed = silent_disks.contains(one.server);
    if (!tasks_get_lost) carry_out(coordinator_->handle_done(done, task_fails, now_));
  }
}

void FakeCluster::carry_out(Process& process, const ControlOutput& output) {
  // A connection that is made again is another peer to the coordinator.
  if (output.reconnect) process.peer = PeerId(next_peer_++);
  for (const pb::ControlMessage& message : output.messages) put(process.peer, true, message);
  for (const ControlEvent& event : output.events) {
    process.events.push_back(event);
    if (std::holds_alternative<control_event::DeclaredLost>(event)) {
      process.server.forget();
      process.worker.forget();
    } else if (const auto* server_job = std::get_if<pb::ServerJob>(&event)) {
      process.server.take(*server_job);
    } else if (const auto* worker_job = std::get_if<pb::WorkerJob>(&event)) {
      process.worker.take(*worker_job);
    }
  }
}

void FakeCluster::step() {
  now_ = now_ + kStep;
  while (!flights_.empty() && flights_.begin()->first <= now_) {
    const Flight flight = flights_.begin()->second;
    flights_.erase(flights_.begin());
    deliver(flight);
  }
  if (coordinator_ && now_ >= next_coordinator_tick_) {
    next_coordinator_tick_ = now_ + kCoordinatorTick;
    carry_out(coordinator_->tick(now_));
  }
  // A worker knows the servers that its job has.
  const auto servers_of = [this](const FakeWorker& worker) {
    std::vector<FakeServer*> servers;
    for (auto& [name, process] : processes_) {
      const bool is_its =
          worker.job() &&
          std::ranges::any_of(worker.job()->shards(), [&name = name](const pb::ShardInfo& shard) {
            return shard.address().starts_with(name + ":");
          });
      if (process.session && is_its) servers.push_back(&process.server);
    }
    return servers;
  };
  for (auto& [name, process] : processes_) {
    if (!process.session) continue;
    const bool is_server = process.role == pb::ROLE_SERVER;
    if (!is_server) process.worker.step(servers_of(process.worker));
    pb::Heartbeat report = is_server ? process.server.report() : process.worker.report();
    if (process.facts.number() != 0) *report.mutable_facts() = process.facts;
    process.session->report(std::move(report));
    carry_out(process, process.session->tick(now_));
  }
}

void FakeCluster::run_for(Duration time) {
  const TimePoint end = now_ + time;
  while (now_ < end) step();
}

bool FakeCluster::run_until(const std::function<bool()>& holds, Duration limit) {
  const TimePoint end = now_ + limit;
  while (now_ < end) {
    if (holds()) return true;
    step();
  }
  return holds();
}

void FakeCluster::restart_coordinator(Duration pause) {
  coordinator_.reset();
  run_for(pause);
  // Every process is another peer to the new one.
  for (auto& [name, process] : processes_) process.peer = PeerId(next_peer_++);
  coordinator_ = std::make_unique<Coordinator>(options, store_->load().value(), now_);
}

void FakeCluster::pause_coordinator(Duration pause) {
  std::unique_ptr<Coordinator> paused = std::move(coordinator_);
  run_for(pause);
  coordinator_ = std::move(paused);
}

pb::ControlMessage FakeCluster::ask(pb::ControlMessage request) {
  const PeerId client(next_peer_++);
  request.set_request(next_session_++);
  CoordinatorOutput output = coordinator_->handle(client, request, now_);
  pb::ControlMessage reply;
  for (const CoordinatorMessage& outgoing : output.messages) {
    if (outgoing.to == client) reply = outgoing.message;
  }
  std::erase_if(output.messages,
                [client](const CoordinatorMessage& one) { return one.to == client; });
  carry_out(output);
  TAUT_CHECK(reply.request() == request.request(), "a reply repeats its request's number");
  return reply;
}

void FakeCluster::hear(PeerId from, const Identity& sender, const pb::ControlMessage& message) {
  if (!coordinator_ || !refusal_of(&sender, message).empty()) return;
  carry_out(coordinator_->handle(from, message, now_));
}

pb::SubmitReply FakeCluster::submit(const pb::Job& job, std::uint64_t token,
                                    const std::string& user) {
  pb::ControlMessage request;
  *request.mutable_submit()->mutable_definition() = job;
  request.mutable_submit()->set_token(token);
  request.mutable_submit()->set_user(user);
  return ask(request).submit_reply();
}

pb::JobStatus FakeCluster::status(std::uint64_t job) {
  pb::ControlMessage request;
  request.mutable_status_request()->set_job(job);
  const pb::StatusReply reply = ask(request).status_reply();
  return reply.jobs().empty() ? pb::JobStatus() : reply.jobs(0);
}

pb::CommandReply FakeCluster::set_slack(std::uint64_t job, std::int64_t slack) {
  pb::ControlMessage request;
  request.mutable_set_slack()->set_job(job);
  request.mutable_set_slack()->set_slack(slack);
  return ask(request).command_reply();
}

pb::CommandReply FakeCluster::stop(std::uint64_t job, bool discard) {
  pb::ControlMessage request;
  request.mutable_stop_job()->set_discard(discard);
  request.mutable_stop_job()->set_job(job);
  return ask(request).command_reply();
}

pb::CommandReply FakeCluster::finish(std::uint64_t job) {
  pb::ControlMessage request;
  request.mutable_stop_job()->set_finish(true);
  request.mutable_stop_job()->set_job(job);
  return ask(request).command_reply();
}

bool FakeCluster::run_until_state(std::uint64_t job, pb::JobState state) {
  return run_until([&] { return status(job).state() == state; });
}

std::vector<std::string> FakeCluster::broken() const {
  std::vector<std::string> all = broken_;
  for (const auto& [name, process] : processes_) {
    all.insert(all.end(), process.server.broken.begin(), process.server.broken.end());
  }
  return all;
}

pb::Job make_job(std::uint32_t workers, std::int32_t max_iter, std::uint32_t slack) {
  pb::Job job;
  job.set_name("test");
  job.mutable_net_param()->set_name("net");
  job.mutable_solver_param()->set_max_iter(max_iter);
  job.mutable_solver_param()->set_base_lr(0.01F);
  job.set_workers(workers);
  job.mutable_consistency()->set_slack(slack);
  return job;
}

}  // namespace taut
