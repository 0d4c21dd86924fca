#include "server/coordinator/store/job_record.hpp"

#include <map>
#include <set>
#include <unordered_set>

#include "common/check.hpp"
#include "proto/config/exchange/worker_state.hpp"
#include "proto/config/external_job.hpp"

namespace taut {
namespace {

/// Converts a number of seconds that a process reported.
Duration duration_of(double seconds) {
  constexpr double kMax = 1e9;
  return Duration(static_cast<std::int64_t>(1e6 * std::clamp(seconds, 0.0, kMax)));
}

/// Whether two consecutive reports of a server agree on everything that placement uses.
bool says_same_of_shards(const pb::ServerJobReply& report, const pb::ServerJobReply& former) {
  return report.revision() == former.revision() && report.settling() == former.settling() &&
         report.problems().empty() && former.problems().empty() &&
         std::ranges::equal(report.copies(), former.copies(),
                            [](const pb::ShardCopy& a, const pb::ShardCopy& b) {
                              return a.shard() == b.shard() && a.choice() == b.choice() &&
                                     a.complete() == b.complete();
                            });
}

std::optional<TrainedSpan> joined(const std::optional<TrainedSpan>& a,
                                  const std::optional<TrainedSpan>& b) {
  if (!a || !b) return a ? a : b;
  return TrainedSpan{std::min(a->from, b->from), std::max(a->to, b->to)};
}

void add_former(const pb::StoredMember& member, pb::FormerMembers& former) {
  const pb::Progress& progress = member.progress();
  if (member.finished()) former.add_finished_slots(member.member().slot());
  former.set_members(former.members() + 1);
  former.set_images(former.images() + progress.images());
  std::map<std::int64_t, std::uint64_t> reads;
  for (const auto* bins : {&former.staleness(), &progress.staleness()}) {
    for (const pb::StalenessBin& bin : *bins) reads[bin.staleness()] += bin.reads();
  }
  former.clear_staleness();
  for (const auto& [staleness, count] : reads) {
    pb::StalenessBin& bin = *former.add_staleness();
    bin.set_staleness(staleness);
    bin.set_reads(count);
  }
}

}  // namespace

JobRecord JobRecord::recover(pb::StoredJob stored, TimePoint now) {
  JobRecord job(std::move(stored), now);
  // States of older releases name one backup.
  for (pb::StoredShard& shard : *job.stored_.mutable_shards()) {
    if (!shard.has_backup()) continue;
    pb::StoredBackup& backup = *shard.add_backups();
    backup.set_host(shard.backup());
    backup.set_choice(shard.copy());
    shard.clear_backup();
  }
  job.changed_ = false;
  job.recovered_order = job.stored_.checkpoint().number();
  job.servers.resize(static_cast<std::size_t>(job.stored_.servers_size()));
  job.workers.resize(static_cast<std::size_t>(job.stored_.members_size()));
  for (Worker& worker : job.workers) worker.notified = true;
  // The coordinator may have restarted before servers knew.
  job.servers_lack_finished_ =
      job.is_active() && job.stored_.replication_interval() > 0 &&
      std::ranges::any_of(job.stored_.members(), &pb::StoredMember::finished);
  // Silent shards may have answered since.
  for (pb::StoredMember& member : *job.stored_.mutable_members()) {
    if (member.progress().has_silent()) member.mutable_progress()->clear_silent();
  }
  for (std::size_t i = 0; i < job.servers.size(); ++i) {
    job.servers[i].lost = job.stored_.servers(static_cast<int>(i)).lost();
  }
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

std::uint32_t JobRecord::next_worker() const {
  const auto& members = stored_.members();
  return members.empty() ? 0 : members.rbegin()->member().worker() + 1;
}

void JobRecord::forget_past(Clock version) {
  if (roster().left() == 0 && roster().past() <= kMaxPast) return;
  std::ptrdiff_t past = 0;
  for (int i = 0; i < stored_.members_size(); ++i) {
    const pb::StoredMember& member = stored_.members(i);
    const std::int64_t leave = member.member().leave_clock();
    // If nothing is ever written V is never(), and a worker that has not left must remain a
    // member.
    const bool is_past = leave != Clock::never().value() && leave <= version.value();
    if (is_past && !member.past()) change().mutable_members(i)->set_past(true);
    if (is_past) ++past;
  }
  // The oldest come first. The last member stays, since its number is the highest.
  for (int i = 0; past > kMaxPast && i + 1 < stored_.members_size();) {
    if (!stored_.members(i).past()) {
      ++i;
      continue;
    }
    add_former(stored_.members(i), *change().mutable_former());
    former_ = joined(former_, workers[static_cast<std::size_t>(i)].trained);
    stored_.mutable_members()->DeleteSubrange(i, 1);
    workers.erase(workers.begin() + i);
    --past;
  }
}

void JobRecord::revise_worker(int index) {
  pb::StoredMember& member = *stored_.mutable_members(index);
  member.set_revision(member.revision() + 1);
  changed_ = true;
  delivered.reset();
}

void JobRecord::revise_workers() {
  for (int i = 0; i < stored_.members_size(); ++i) {
    if (works(stored_.members(i))) revise_worker(i);
  }
}

bool JobRecord::all_answer() const {
  return std::ranges::all_of(stored_.members(), [this](const pb::StoredMember& member) {
    return !works(member) || member.progress().revision() >= member.revision();
  });
}

std::int64_t JobRecord::first_unbegun() const {
  std::int64_t begun = 0;
  const std::int64_t end = end_clock(stored_.definition()).value() - 1;
  for (const pb::StoredMember& member : stored_.members()) {
    begun = std::max({begun, member.progress().clock(), member.progress().begun(),
                      member.member().join_clock()});
    if (Clock(member.member().leave_clock()) < Clock::never()) {
      begun = std::max(begun, member.member().leave_clock());
    }
  }
  for (const Server& server : servers) {
    if (!server.lost) begun = std::max(begun, server.reply.max_done());
  }
  return std::min(begun, end) + 1;
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
    return server.lost || server.delivery.acknowledged() >= revision;
  });
}

void JobRecord::take_reply(int server, const pb::ServerJobReply& reply) {
  // A revision above ours answers a state that this coordinator does not remember.
  if (reply.revision() > stored_.revision()) return;
  Server& entry = servers[static_cast<std::size_t>(server)];
  if (reply.revision() < entry.reply.revision()) return;
  placement_due |= !says_same_of_shards(reply, entry.reply);
  entry.reply = reply;
  for (const pb::BadUpdates& bad : reply.bad_updates()) {
    for (int i = 0; i < stored_.members_size(); ++i) {
      if (stored_.members(i).member().worker() != bad.worker()) continue;
      Worker& worker = workers[static_cast<std::size_t>(i)];
      worker.bad_updates = std::max(worker.bad_updates, bad.clocks());
      has_new_bad_updates = true;
    }
  }
  if (reply.error().empty()) entry.delivery.acknowledge(reply.revision());
  if (delivered && delivered->awaits_servers) delivered.reset();
}

void JobRecord::take_progress(int index, const pb::Progress& progress, TimePoint now) {
  const pb::StoredMember& member = stored_.members(index);
  const bool is_final = progress.finished() || !progress.error().empty();
  if (progress.clock() < member.progress().clock() && !is_final) return;
  Worker& worker = workers[static_cast<std::size_t>(index)];
  worker.delivery.acknowledge(progress.revision());
  if (progress.images() > member.progress().images()) {
    const TimePoint end = now + -duration_of(progress.since_trained_s());
    worker.trained = TrainedSpan{end + -duration_of(progress.trained_s()), end};
  }
  placement_due |= progress.has_silent();
  // Saved with the next change; it need not be saved at each heartbeat.
  *stored_.mutable_members(index)->mutable_progress() = progress;
  if (progress.finished() && progress.error().empty() && !member.finished()) {
    if (member.lost()) {
      change().mutable_members(index)->set_finished(true);
    } else {
      // A thousand members may finish one by one: the roster is updated, not rebuilt.
      (void)roster();
      stored_.mutable_members(index)->set_finished(true);
      roster_->note_finished(member.leaves());
      changed_ = true;
    }
    if (stored_.replication_interval() > 0) servers_lack_finished_ = true;
  }
  if (!progress.parameters_sha256().empty() &&
      progress.parameters_sha256() != stored_.parameters_sha256()) {
    change().set_parameters_sha256(progress.parameters_sha256());
  }
  take_evaluations(progress);
}

/// Adds new tests. A report has all tests so far: many in the end, and mostly none that is new.
void JobRecord::take_evaluations(const pb::Progress& progress) {
  if (progress.evaluations().empty()) return;
  std::unordered_set<std::int64_t> known;
  for (const pb::Evaluation& one : stored_.evaluations()) known.insert(one.clock());
  for (const pb::Evaluation& evaluation : progress.evaluations()) {
    if (known.insert(evaluation.clock()).second) *change().add_evaluations() = evaluation;
  }
}

double JobRecord::records_per_second() const {
  auto records = static_cast<double>(stored_.former().images());
  std::optional<TrainedSpan> span = former_;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (!workers[i].trained) continue;
    span = joined(span, workers[i].trained);
    records += static_cast<double>(stored_.members(static_cast<int>(i)).progress().images());
  }
  return span && span->to > span->from ? records / seconds(span->to - span->from) : 0;
}

int JobRecord::find_member(Incarnation incarnation) const {
  return roster().find(incarnation);
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
  std::vector<std::string> addresses;  // by host
  for (const pb::StoredServer& server : stored.servers()) {
    addresses.insert(addresses.end(), server.shard_addresses().begin(),
                     server.shard_addresses().end());
  }
  const auto count =
      stored.shards().empty() ? addresses.size() : static_cast<std::size_t>(stored.shards_size());
  for (std::size_t number = 0; number < count; ++number) {
    pb::ShardInfo& shard = *state.add_shards();
    shard.set_shard(static_cast<std::uint32_t>(number));
    if (stored.shards().empty()) {
      shard.set_address(addresses[number]);
      continue;
    }
    const pb::StoredShard& place = stored.shards(static_cast<int>(number));
    shard.set_address(addresses.at(place.host()));
    shard.set_host(place.host());
    shard.set_term(place.term());
  }
}

}  // namespace

int JobRecord::server_of(std::uint32_t host) const {
  for (int i = 0; i < stored_.servers_size(); ++i) {
    const pb::StoredServer& server = stored_.servers(i);
    const std::uint32_t end =
        server.first_shard() + static_cast<std::uint32_t>(server.shard_addresses_size());
    if (host >= server.first_shard() && host < end) return i;
  }
  return -1;
}

bool JobRecord::is_whole(int shard, const pb::StoredBackup& backup) const {
  const int server = server_of(backup.host());
  if (server < 0 || stored_.servers(server).lost()) return false;
  const auto& copies = servers[static_cast<std::size_t>(server)].reply.copies();
  return std::any_of(copies.begin(), copies.end(), [&](const pb::ShardCopy& copy) {
    return copy.shard() == static_cast<std::uint32_t>(shard) && copy.complete() &&
           copy.choice() == backup.choice();
  });
}

void JobRecord::add_backups(pb::ServerJob& state) const {
  for (int number = 0; number < stored_.shards_size(); ++number) {
    const pb::StoredShard& place = stored_.shards(number);
    pb::ShardInfo& shard = *state.mutable_shards(number);
    shard.set_copy(place.copy());
    for (const pb::StoredBackup& stored : place.backups()) {
      const pb::StoredServer& server = stored_.servers(server_of(stored.host()));
      pb::ShardBackup& backup = *shard.add_backups();
      backup.set_host(stored.host());
      backup.set_address(
          server.shard_addresses(static_cast<int>(stored.host() - server.first_shard())));
      backup.set_choice(stored.choice());
      backup.set_is_whole(is_whole(number, stored));
    }
  }
}

pb::ServerJob JobRecord::server_job(int server) const {
  pb::ServerJob state;
  state.set_job(stored_.job());
  state.set_revision(stored_.revision());
  *state.mutable_definition() = stored_.definition();
  for (const pb::StoredMember& member : stored_.members()) {
    if (member.past()) continue;
    pb::Member& added = *state.add_members();
    added = member.member();
    added.set_finished(member.finished());
  }
  *state.mutable_modes() = stored_.modes();
  state.set_slack(stored_.slack());
  state.set_hold_from(stored_.hold_from());
  add_shards(stored_, state);
  add_backups(state);
  state.set_first_shard(stored_.servers(server).first_shard());
  state.set_replication_interval(stored_.replication_interval());
  state.set_logs_updates(stored_.logs_updates());
  state.set_epoch(stored_.epoch());
  state.set_submission(stored_.token());
  state.set_finished(has_ended() && !stored_.lingers());
  for (const pb::StoredFollower& follower : stored_.followers()) {
    *state.add_followers() = follower.follower();
  }
  state.set_follower_slack(stored_.definition().followers().slack());
  if (stored_.has_checkpoint()) *state.mutable_checkpoint() = stored_.checkpoint();
  // A server that joined later starts only from images.
  const bool is_first =
      stored_.shards().empty() || static_cast<int>(state.first_shard()) < stored_.shards_size();
  if (stored_.has_resume() && is_first) *state.mutable_resume() = stored_.resume();
  return state;
}

void JobRecord::add_shards_to(pb::FollowReply& reply) const {
  add_shards(stored_, reply);
  reply.set_job(stored_.job());
  reply.set_submission(stored_.token());
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
  state.set_replicated(stored_.replication_interval() > 0);
  state.set_evaluates(member.worker() == stored_.evaluating());
  state.set_token(stored_.token());
  state.set_leaves(stored_member.leaves());
  *state.mutable_shares() = stored_.shares();
  state.set_hold_from(stored_.proposed_shares().first_clock());
  state.set_saved_before(stored_.saved_before());
  if (stored_.has_rank_group()) *state.mutable_group() = stored_.rank_group();
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

std::uint32_t JobRecord::lost_slots() const {
  std::set<std::uint32_t> lost;
  for (const pb::StoredMember& member : stored_.members()) {
    if (member.lost() && !member.leaves()) lost.insert(member.member().slot());
  }
  for (const pb::StoredMember& member : stored_.members()) {
    if (!member.lost()) lost.erase(member.member().slot());
  }
  const std::uint32_t limit = worker_limit();
  return std::min(static_cast<std::uint32_t>(lost.size()), limit - std::min(limit, staying()));
}

void JobRecord::count_running(TimePoint now) {
  if (stored_.state() == pb::RUNNING) {
    stored_.set_service_s(stored_.service_s() + working() * seconds(now - counted_to_));
  }
  stored_.set_running_s(running_s(now));
  counted_to_ = now;
}

}  // namespace taut
