// The queue's state, on which the scheduling policy decides, and why jobs wait.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "proto/config/exchange/worker_state.hpp"
#include "proto/config/experiment_check.hpp"
#include "server/coordinator/checkpoints/written_parts.hpp"
#include "server/coordinator/coordinator.hpp"
#include "server/coordinator/job_status.hpp"
#include "server/coordinator/queue/job_demand.hpp"

namespace taut {
namespace {

/// How many servers have each shard of a job, as its primary or as a backup.
std::uint64_t copies_of(const pb::StoredJob& stored) {
  if (stored.replication_interval() == 0) return 1;
  const auto& servers = stored.servers();
  const auto here = std::count_if(servers.begin(), servers.end(),
                                  [](const pb::StoredServer& server) { return !server.lost(); });
  const std::uint64_t wanted = 1 + std::max(stored.replication_copies(), 1U);
  return std::min(wanted, static_cast<std::uint64_t>(here));
}

constexpr std::uint64_t kUnlimited = WorkerList::kUnlimited;

/// Seconds until a job ends: from its pace, or from what its definition expects.
std::optional<double> remaining_s(const JobRecord& job, const Registry& registry, TimePoint now) {
  if (job.stored().state() == pb::RUNNING) {
    const double left = job_status(job, registry, "", now).left_s();
    if (left > 0) return left;
  }
  const double expected = job.stored().definition().expected_s();
  if (expected <= 0) return std::nullopt;
  return std::max(0.0, expected - job.running_s(now));
}

bool waits(const JobRecord& job) {
  return job.stored().state() == pb::SUBMITTED && !job.stored().held();
}

/// Whose memory a worker uses: its own, or that of its machine.
std::pair<bool, std::string> memory_of(const Participant& worker) {
  const bool is_own = worker.memory_is_own || worker.host.empty();
  return {is_own, is_own ? worker.name : worker.host};
}

/// These workers, the nearest to the job's own first.
std::vector<const Participant*> nearest_to(const JobRecord& job, const Registry& registry,
                                           const std::vector<const Participant*>& workers) {
  std::vector<std::string> hosts;
  hosts.reserve(workers.size());
  for (const Participant* worker : workers) hosts.push_back(worker->host);
  std::vector<std::string> near;
  for (const pb::StoredMember& member : job.stored().members()) {
    const Participant* worker = registry.find(pb::ROLE_WORKER, member.member().name());
    if (job.works(member) && worker != nullptr) near.push_back(worker->host);
  }
  std::vector<const Participant*> ordered;
  ordered.reserve(workers.size());
  for (const std::size_t i : nearest_first(hosts, near)) ordered.push_back(workers[i]);
  return ordered;
}

std::string whose(const std::string& user) {
  return user.empty() ? std::string("this user") : fmt::format("user \"{}\"", user);
}

std::string counted(std::uint32_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

bool Coordinator::is_saving(const JobRecord& job, int member) const {
  const pb::StoredJob& stored = job.stored();
  const pb::StoredMember& one = stored.members(member);
  const bool may_save = one.finished() && !one.lost() && stored.has_checkpoint() &&
                        one.progress().checkpoint().number() != stored.checkpoint().number();
  if (!may_save) return false;
  const Participant* process = registry_.find_live(pb::ROLE_WORKER, one.member().name(),
                                                   Incarnation(one.member().incarnation()));
  // Once it runs another job, it writes no part of this one's checkpoint.
  return process != nullptr && process->reports == JobId(stored.job()) &&
         owes_checkpoint(job, member);
}

std::map<Incarnation, Coordinator::WorkerUse> Coordinator::busy_workers() const {
  std::map<Incarnation, WorkerUse> busy;
  for (const auto& [id, job] : jobs_) {
    if (!job.is_active()) continue;
    for (int i = 0; i < job.stored().members_size(); ++i) {
      const pb::StoredMember& member = job.stored().members(i);
      const Incarnation life(member.member().incarnation());
      if (job.works(member)) {
        busy[life] = {id, member.leaves()};
      } else if (is_saving(job, i)) {
        busy.try_emplace(life, WorkerUse{id, true});
      }
    }
  }
  return busy;
}

std::vector<const Participant*> Coordinator::idle_workers(JobId job) const {
  const std::map<Incarnation, WorkerUse> busy = busy_workers();
  std::vector<const Participant*> workers = registry_.available_for(job);
  std::erase_if(workers, [&](const Participant* one) { return busy.contains(one->incarnation); });
  return workers;
}

std::vector<const Participant*> Coordinator::fitting_workers(const JobRecord& job) const {
  const PlaceDemand demand = place_demand(job.stored().definition());
  if (demand.none()) return nearest_to(job, registry_, idle_workers(job.takes()));
  std::vector<const Participant*> workers;
  const WorkerList list = worker_list(workers);
  FreeWorkers free(list, 0);
  std::vector<const Participant*> fitting;
  for (const std::size_t i : free.take(demand, free.fitting(demand))) {
    fitting.push_back(workers[i]);
  }
  return nearest_to(job, registry_, fitting);
}

std::vector<std::uint64_t> Coordinator::idle_state() const {
  std::vector<std::uint64_t> state{registry_.states()};
  for (const auto& [id, job] : jobs_) {
    // A member that finishes does not change the version.
    if (!job.is_active()) continue;
    std::uint64_t saving = 0;
    const bool may_save = job.stored().has_checkpoint() && job.roster().finished() > 0 &&
                          carries_state(job.stored().definition());
    for (int i = 0; may_save && i < job.stored().members_size(); ++i) {
      saving += is_saving(job, i) ? 1 : 0;
    }
    state.insert(state.end(), {id.value(), job.version(), job.working(), saving});
  }
  return state;
}

std::vector<const Participant*> Coordinator::workers_for(const JobRecord& job) {
  FittingWorkers& known = fitting_[JobId(job.stored().job())];
  std::vector<std::uint64_t> state = idle_state();
  if (known.state != state) known = {std::move(state), fitting_workers(job)};
  return known.workers;
}

WorkerList Coordinator::worker_list(std::vector<const Participant*>& workers) const {
  const std::map<Incarnation, WorkerUse> busy = busy_workers();
  workers = registry_.available_for(JobId());
  WorkerList list;
  std::map<std::pair<bool, std::string>, std::size_t> pools;
  for (const Participant* worker : workers) {
    const auto [pool, is_new] = pools.try_emplace(memory_of(*worker), list.memory.size());
    if (is_new) list.memory.push_back(0);
    std::uint64_t& memory = list.memory[pool->second];
    memory = std::max(memory, worker->memory_bytes > 0 ? worker->memory_bytes : kUnlimited);
    WorkerPlace& place = list.workers.emplace_back();
    place.name = worker->name;
    place.host = worker->host;
    place.devices = worker->devices;
    place.memory = pool->second;
    if (const auto use = busy.find(worker->incarnation); use != busy.end()) {
      place.job = use->second.job;
      place.leaves = use->second.leaves;
    }
  }
  for (const auto& [id, job] : jobs_) {
    const std::uint64_t demand = place_demand(job.stored().definition()).memory;
    if (!job.is_active() || demand == 0) continue;
    for (int i = 0; i < job.stored().members_size(); ++i) {
      const pb::StoredMember& member = job.stored().members(i);
      const Participant* worker = registry_.find(pb::ROLE_WORKER, member.member().name());
      const bool uses_memory = job.works(member) || is_saving(job, i);
      if (!uses_memory || worker == nullptr) continue;
      for (const auto& [pool, index] : pools) {
        // Where a worker runs is unknown until it has reconnected to a restarted coordinator.
        const bool may_be_here = worker->peer ? pool == memory_of(*worker) : !pool.first;
        std::uint64_t& memory = list.memory[index];
        if (may_be_here && memory != kUnlimited) memory -= std::min(memory, demand);
      }
    }
  }
  return list;
}

std::optional<std::uint64_t> Coordinator::server_memory(bool all) const {
  const std::vector<const Participant*> servers = registry_.available(pb::ROLE_SERVER);
  std::uint64_t shards = 0;
  for (const Participant* server : servers) shards += server->shard_addresses.size();
  const bool is_replicated = options_.replication_interval > 0 && !servers.empty();
  const std::uint64_t copies =
      is_replicated ? std::min<std::uint64_t>(1 + options_.replication_copies, servers.size()) : 1;
  std::optional<double> least;
  for (const Participant* server : servers) {
    if (server->table_limit_bytes == 0 || server->shard_addresses.empty()) continue;
    auto free = static_cast<double>(server->table_limit_bytes);
    for (const auto& [id, job] : jobs_) {
      const pb::StoredJob& stored = job.stored();
      const auto reserved = static_cast<double>(stored.definition().resources().server_memory());
      const int index = job.find_server(server->name, server->incarnation);
      if (all || !job.is_active() || reserved == 0 || index < 0) continue;
      double job_shards = 0;
      for (const pb::StoredServer& one : stored.servers()) job_shards += one.shard_addresses_size();
      if (job_shards == 0) continue;
      free -= reserved * stored.servers(index).shard_addresses_size() / job_shards *
              static_cast<double>(copies_of(stored));
    }
    // A job's share of this server's memory follows from the server's share of all shards.
    const double of_all = std::max(free, 0.0) * static_cast<double>(shards) /
                          static_cast<double>(server->shard_addresses.size() * copies);
    least = std::min(least.value_or(of_all), of_all);
  }
  if (!least) return std::nullopt;
  return static_cast<std::uint64_t>(*least);
}

UserQuota Coordinator::quota_of(const JobRecord& job) const {
  UserQuota quota;
  for (const pb::Quota& one : options_.scheduling.quota()) {
    const bool is_own = one.has_user() && one.user() == job.stored().user();
    if (is_own || !one.has_user()) quota = {std::nullopt, one.workers(), one.jobs()};
    if (is_own) break;
  }
  return quota;
}

bool Coordinator::may_know_workers(const JobRecord& job) const {
  // "Every worker that has joined" is unknown until all have had time to reconnect.
  const bool is_recovered = job.stored().job() < first_new_job_;
  return !is_recovered || job.stored().definition().workers() > 0 || !awaits_any();
}

bool Coordinator::awaits_any() const {
  // As of the last tick: later messages may follow a pause, which only the next tick notices.
  return had_processes_ && last_tick_ - recovered_at_ <= options_.heartbeat_limit;
}

bool Coordinator::awaits_known() const {
  if (!awaits_any()) return false;
  const auto is_absent = [this](pb::Role role, const std::string& name, std::uint64_t life) {
    const Participant* process = registry_.find_live(role, name, Incarnation(life));
    return process != nullptr && !process->peer;
  };
  return std::ranges::any_of(jobs_, [&](const auto& entry) {
    const JobRecord& job = entry.second;
    const pb::StoredJob& stored = job.stored();
    if (!job.is_active()) return false;
    return std::ranges::any_of(stored.servers(),
                               [&](const pb::StoredServer& server) {
                                 return !server.lost() && is_absent(pb::ROLE_SERVER, server.name(),
                                                                    server.incarnation());
                               }) ||
           std::ranges::any_of(stored.members(), [&](const pb::StoredMember& member) {
             return job.works(member) && is_absent(pb::ROLE_WORKER, member.member().name(),
                                                   member.member().incarnation());
           });
  });
}

bool Coordinator::gathers() const {
  if (!awaits_any()) return false;
  const bool all_are_back = names_processes_ && !registry_.has_absent();
  // The reply to a process's next heartbeat has it send a hello to the new coordinator.
  return !all_are_back && last_tick_ - last_join_ < 2 * registry_.longest_interval();
}

ScheduledJob Coordinator::scheduled(const JobRecord& job, bool competes) const {
  const pb::StoredJob& stored = job.stored();
  ScheduledJob one;
  one.job = JobId(stored.job());
  one.priority = stored.priority();
  one.service_s = stored.service_s();
  if (competes) one.remaining_s = remaining_s(job, registry_, now_);
  one.user = stored.user();
  one.demand = place_demand(stored.definition());
  one.server_memory = stored.definition().resources().server_memory();
  if (stored.state() == pb::SUBMITTED) {
    const std::uint32_t quota = quota_of(job).workers;
    const WorkerDemand demand = worker_demand(job, registry_, quota);
    one.min_workers = demand.min;
    one.max_workers = demand.max;
    return one;
  }
  one.workers = job.staying();
  one.ends = stored.closing() || stored.stops_when_saved();
  one.keeps = job.keeps_until && now_ < *job.keeps_until;
  one.min_workers = min_running_workers(job);
  one.owed = one.ends ? 0 : job.lost_slots();
  one.max_workers = may_grow(job) ? stored.slots() : one.workers + one.owed;
  return one;
}

Coordinator::Queue Coordinator::queue() const {
  Queue queue;
  queue.awaits_known = awaits_known();
  queue.gathers = gathers();
  if (queue.awaits_known || queue.gathers) {
    number(queue);
    return queue;
  }
  SchedulingState& state = queue.state;
  bool grows = false;
  for (const auto& [id, job] : jobs_) {
    grows = grows || (may_grow(job) && job.staying() < job.stored().slots());
    if (!waits(job) || job.takes() != JobId()) continue;
    if (!may_know_workers(job) || !waits_for(job, registry_).empty()) continue;
    state.waiting.push_back(scheduled(job, true));
  }
  if (state.waiting.empty() && !grows) {
    number(queue);
    return queue;
  }
  for (const auto& [id, job] : jobs_) {
    if (!job.is_active() || job.takes() != JobId()) continue;
    state.running.push_back(scheduled(job, !state.waiting.empty()));
  }
  state.workers = worker_list(queue.workers);
  for (ScheduledJob& job : state.running) {
    // Workers that the job has quarantined replace none.
    const auto& quarantined = jobs_.at(job.job).stored().quarantined();
    const auto fitting =
        std::ranges::count_if(state.workers.workers, [&quarantined](const WorkerPlace& worker) {
          return worker.job == JobId() && std::ranges::count(quarantined, worker.name) == 0;
        });
    job.owed = std::min(job.owed, static_cast<std::uint32_t>(fitting));
  }
  for (const pb::Quota& one : options_.scheduling.quota()) {
    UserQuota& quota = state.quotas.emplace_back();
    if (one.has_user()) quota.user = one.user();
    quota.workers = one.workers();
    quota.jobs = one.jobs();
  }
  const bool needs_memory = std::ranges::any_of(
      state.waiting, [](const ScheduledJob& job) { return job.server_memory > 0; });
  if (needs_memory) state.server_memory = server_memory(false);
  // No running job makes room while idle workers may still reconnect.
  const bool may_make_room = !awaits_any();
  queue.decision =
      policy_->decide(state, {.shrinks = may_make_room && options_.scheduling.shrinking(),
                              .preempts = may_make_room && options_.scheduling.preemption()});
  number(queue);
  return queue;
}

/// Numbers first the jobs that the policy starts or orders, then, by priority, those that wait for
/// processes to join.
void Coordinator::number(Queue& queue) const {
  std::uint32_t place = 0;
  for (const auto& start : queue.decision.starts) queue.places[start.job] = ++place;
  for (const auto& wait : queue.decision.waits) queue.places[wait.job] = ++place;
  std::vector<const JobRecord*> others;
  for (const auto& [id, job] : jobs_) {
    if (waits(job) && !queue.places.contains(id)) others.push_back(&job);
  }
  std::ranges::stable_sort(others, std::greater(),
                           [](const JobRecord* job) { return job->stored().priority(); });
  for (const JobRecord* job : others) queue.places[JobId(job->stored().job())] = ++place;
}

std::string Coordinator::waits_for_workers(const JobRecord& job, std::uint32_t fitting) const {
  const PlaceDemand demand = place_demand(job.stored().definition());
  if (!demand.none()) {
    const std::uint32_t required = worker_demand(job, registry_, quota_of(job).workers).min;
    return fmt::format("waits for {} with {} each; {} of them {} idle", counted(required, "worker"),
                       words_of(demand), fitting, fitting == 1 ? "is" : "are");
  }
  std::string running;
  std::string leaving;
  for (const auto& [id, other] : jobs_) {
    if (!other.is_active() || other.takes() != JobId()) continue;
    running += fmt::format("{}{}", running.empty() ? "" : ", ", id.value());
    if (other.staying() == other.working()) continue;
    leaving += fmt::format("{}{}", leaving.empty() ? "" : ", ", id.value());
  }
  const auto is_one = [](const std::string& list) { return list.find(',') == std::string::npos; };
  if (!leaving.empty()) {
    return fmt::format("waits for workers that leave job{} {}", is_one(leaving) ? "" : "s",
                       leaving);
  }
  if (running.empty()) return "waits for workers to be idle";
  return is_one(running) ? fmt::format("waits for job {} to end", running)
                         : fmt::format("waits for workers of jobs {}", running);
}

std::string Coordinator::waits_for_quota(const JobRecord& job, WaitReason reason) const {
  const UserQuota quota = quota_of(job);
  const std::string user = whose(job.stored().user());
  std::uint32_t jobs = 0;
  std::uint32_t workers = 0;
  for (const auto& [id, other] : jobs_) {
    const bool counts = other.is_active() && other.stored().user() == job.stored().user() &&
                        other.takes() == JobId();
    if (!counts) continue;
    ++jobs;
    workers += other.staying();
  }
  if (reason == WaitReason::kQuotaJobs) {
    return fmt::format("{} has {} running, and the quota is {}", user, counted(jobs, "job"),
                       quota.jobs);
  }
  const std::uint32_t required = worker_demand(job, registry_, quota.workers).min;
  if (required > quota.workers) {
    return fmt::format("requires {}, and the quota of {} is {}: it cannot start",
                       counted(required, "worker"), user, quota.workers);
  }
  return fmt::format("requires {}, and {} has {} of the quota of {}", counted(required, "worker"),
                     user, workers, quota.workers);
}

std::string Coordinator::waits_for_memory(const JobRecord& job) const {
  const std::uint64_t required = job.stored().definition().resources().server_memory();
  const std::uint64_t all = server_memory(true).value_or(0);
  const std::uint64_t free = server_memory(false).value_or(0);
  const bool is_replicated =
      options_.replication_interval > 0 && registry_.available(pb::ROLE_SERVER).size() > 1;
  const char* with = is_replicated ? ", with their backups" : "";
  if (required > all) {
    return fmt::format(
        "requires {} of the servers' memory, which has room for tables of {}{}: it "
        "cannot start before more servers join",
        in_gib(required), in_gib(all), with);
  }
  return fmt::format("waits for {} of the servers' memory; there is room for tables of {} of {}{}",
                     in_gib(required), in_gib(free), in_gib(all), with);
}

std::string Coordinator::waiting_message(const JobRecord& job, const Queue& queue) const {
  const pb::StoredJob& stored = job.stored();
  if (stored.held()) return fmt::format("is held; tautline release {} lets it start", stored.job());
  if (queue.awaits_known) {
    return "waits for processes of running jobs to reconnect after the coordinator's restart";
  }
  if (!may_know_workers(job)) {
    return "waits for the workers to reconnect after the coordinator's restart";
  }
  if (std::string missing = waits_for(job, registry_); !missing.empty()) return missing;
  if (queue.gathers) {
    return "waits for further processes to reconnect after the coordinator's restart";
  }
  const auto wait =
      std::ranges::find(queue.decision.waits, JobId(stored.job()), &SchedulingDecision::Wait::job);
  if (wait == queue.decision.waits.end()) return "";
  switch (wait->reason) {
    case WaitReason::kWorkers:
      return waits_for_workers(job, wait->fitting);
    case WaitReason::kTooLarge: {
      const PlaceDemand demand = place_demand(stored.definition());
      return fmt::format(
          "requires {}{}{}, and all workers together have room for {}",
          counted(worker_demand(job, registry_, quota_of(job).workers).min, "worker"),
          demand.none() ? "" : " with ", words_of(demand), wait->fitting);
    }
    case WaitReason::kBehind:
      return fmt::format("waits for job {}, which goes before it", wait->behind.value());
    case WaitReason::kQuotaJobs:
    case WaitReason::kQuotaWorkers:
      return waits_for_quota(job, wait->reason);
    case WaitReason::kServerMemory:
      return waits_for_memory(job);
  }
  return "";
}

}  // namespace taut
