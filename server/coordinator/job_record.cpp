#include "server/coordinator/job_record.hpp"

#include "common/check.hpp"
#include "server/coordinator/checkpoint_orders.hpp"

namespace taut {
namespace {

/// Of a number of seconds that a process reported.
Duration duration_of(double seconds) {
  constexpr double kMax = 1e9;
  return Duration(static_cast<std::int64_t>(1e6 * std::clamp(seconds, 0.0, kMax)));
}

}  // namespace

JobRecord JobRecord::recover(pb::StoredJob stored, TimePoint now) {
  JobRecord job(std::move(stored), now);
  job.changed_ = false;
  job.servers.resize(static_cast<std::size_t>(job.stored_.servers_size()));
  job.workers.resize(static_cast<std::size_t>(job.stored_.members_size()));
  for (Worker& worker : job.workers) worker.notified = true;
  return job;
}

void JobRecord::add_member(const pb::Member& member, std::uint64_t session,
                           const std::string& device) {
  pb::StoredMember& added = *change().add_members();
  *added.mutable_member() = member;
  added.set_session(session);
  added.set_device(device);
  added.set_revision(1);
  added.set_since(stored_.revision());
  added.mutable_progress()->set_job(stored_.job());
  added.mutable_progress()->set_clock(member.join_clock());
  workers.emplace_back();
}

void JobRecord::revise_worker(int index) {
  pb::StoredMember& member = *change().mutable_members(index);
  member.set_revision(member.revision() + 1);
}

void JobRecord::choose_evaluator() {
  const auto evaluates = [this](const pb::StoredMember& member) {
    return member.member().worker() == stored_.evaluating();
  };
  for (const pb::StoredMember& member : stored_.members()) {
    if (evaluates(member) && !member.lost()) return;
  }
  for (int i = 0; i < stored_.members_size(); ++i) {
    if (!works(stored_.members(i))) continue;
    change().set_evaluating(stored_.members(i).member().worker());
    revise_worker(i);
    return;
  }
}

bool JobRecord::servers_have(std::uint64_t revision) const {
  return std::all_of(servers.begin(), servers.end(), [revision](const Server& server) {
    return server.delivery.acknowledged() >= revision;
  });
}

void JobRecord::take_reply(int server, const pb::ServerJobReply& reply) {
  // A revision beyond ours answers a state that this coordinator does not remember.
  if (reply.revision() > stored_.revision()) return;
  Server& entry = servers[static_cast<std::size_t>(server)];
  if (reply.revision() < entry.reply.revision()) return;
  entry.reply = reply;
  if (reply.error().empty()) entry.delivery.acknowledge(reply.revision());
}

void JobRecord::take_progress(int index, const pb::Progress& progress, TimePoint now) {
  const pb::StoredMember& member = stored_.members(index);
  const bool is_final = progress.finished() || !progress.error().empty();
  if (progress.clock() < member.progress().clock() && !is_final) return;
  Worker& worker = workers[static_cast<std::size_t>(index)];
  worker.delivery.acknowledge(progress.revision());
  if (progress.images() > member.progress().images()) {
    worker.trained_to = now + -duration_of(progress.since_trained_s());
    worker.trained_from = worker.trained_to + -duration_of(progress.trained_s());
  }
  // Saved at each change; it need not be saved at each heartbeat.
  *stored_.mutable_members(index)->mutable_progress() = progress;
  if (progress.finished() && progress.error().empty() && !member.finished()) {
    change().mutable_members(index)->set_finished(true);
  }
  if (!progress.parameters_sha256().empty() &&
      progress.parameters_sha256() != stored_.parameters_sha256()) {
    change().set_parameters_sha256(progress.parameters_sha256());
  }
  for (const pb::Evaluation& evaluation : progress.evaluations()) {
    const auto& known = stored_.evaluations();
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const pb::Evaluation& one) {
      return one.clock() == evaluation.clock();
    });
    if (!is_known) *change().add_evaluations() = evaluation;
  }
}

double JobRecord::records_per_second() const {
  double records = 0;
  std::optional<TimePoint> from;
  TimePoint to;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const Worker& worker = workers[i];
    if (!worker.trained_from) continue;
    from = from ? std::min(*from, *worker.trained_from) : *worker.trained_from;
    to = std::max(to, worker.trained_to);
    records += static_cast<double>(stored_.members(static_cast<int>(i)).progress().images());
  }
  return from && to > *from ? records / seconds(to - *from) : 0;
}

int JobRecord::find_member(Incarnation incarnation) const {
  for (int i = stored_.members_size() - 1; i >= 0; --i) {
    if (stored_.members(i).member().incarnation() == incarnation.value()) return i;
  }
  return -1;
}

int JobRecord::find_server(const std::string& name, Incarnation incarnation) const {
  for (int i = 0; i < stored_.servers_size(); ++i) {
    const pb::StoredServer& server = stored_.servers(i);
    if (server.name() == name && server.incarnation() == incarnation.value()) return i;
  }
  return -1;
}

namespace {

template <class State>
void add_shards(const pb::StoredJob& stored, State& state) {
  std::uint32_t number = 0;
  for (const pb::StoredServer& server : stored.servers()) {
    for (const std::string& address : server.shard_addresses()) {
      pb::ShardInfo& shard = *state.add_shards();
      shard.set_shard(number++);
      shard.set_address(address);
    }
  }
}

}  // namespace

pb::ServerJob JobRecord::server_job(int server) const {
  pb::ServerJob state;
  state.set_job(stored_.job());
  state.set_revision(stored_.revision());
  *state.mutable_definition() = stored_.definition();
  for (const pb::StoredMember& member : stored_.members()) {
    *state.add_members() = member.member();
  }
  *state.mutable_modes() = stored_.modes();
  state.set_slack(stored_.slack());
  state.set_hold_from(stored_.hold_from());
  add_shards(stored_, state);
  state.set_first_shard(stored_.servers(server).first_shard());
  state.set_epoch(stored_.epoch());
  state.set_finished(has_ended());
  if (stored_.has_checkpoint()) *state.mutable_checkpoint() = stored_.checkpoint();
  if (stored_.has_resume()) *state.mutable_resume() = stored_.resume();
  return state;
}

pb::WorkerJob JobRecord::worker_job(int index) const {
  const pb::StoredMember& stored_member = stored_.members(index);
  const pb::Member& member = stored_member.member();
  pb::WorkerJob state;
  state.set_job(stored_.job());
  state.set_revision(stored_member.revision());
  *state.mutable_definition() = stored_.definition();
  state.set_worker(member.worker());
  state.set_incarnation(member.incarnation());
  state.set_slot(member.slot());
  state.set_slots(stored_.slots());
  state.set_start_clock(member.join_clock());
  state.set_epoch(stored_.epoch());
  add_shards(stored_, state);
  state.set_evaluates(member.worker() == stored_.evaluating());
  state.set_token(stored_.token());
  state.set_stop(stored_.closing());
  if (stored_.closing()) state.set_stop_reason(stored_.message());
  if (stored_.has_checkpoint() && carries_state(stored_.definition())) {
    *state.mutable_checkpoint() = stored_.checkpoint();
  }
  if (stored_.has_resume()) *state.mutable_resume() = stored_.resume();
  return state;
}

double JobRecord::running_s(TimePoint now) const {
  const bool running = stored_.state() == pb::RUNNING;
  return stored_.running_s() + (running ? seconds(now - counted_to_) : 0);
}

void JobRecord::count_running(TimePoint now) {
  stored_.set_running_s(running_s(now));
  counted_to_ = now;
}

}  // namespace taut
