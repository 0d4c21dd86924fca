#include "server/dashboard/status_json.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "common/types.hpp"
#include "proto/state_word.hpp"
#include "proto/wire_version.hpp"

namespace taut::dashboard {
namespace {

using nlohmann::json;

constexpr int kJobsShown = 50;
constexpr int kTestsShown = 1000;
constexpr int kLogLines = 60;
constexpr std::size_t kQueueShown = 50;
constexpr int kNamesShown = 16;  // of a job's workers, in the queue

/// JSON has neither NaN nor infinity; more digits would be of no use.
json number(double value, double scale) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * scale) / scale;
}

json slack_of(const pb::JobStatus& job) {
  return slack_json(job.slack());
}

json newest_checkpoint(const pb::JobStatus& job) {
  if (job.checkpoints().empty()) return nullptr;
  const pb::KeptCheckpoint& newest = job.checkpoints(job.checkpoints_size() - 1);
  return {{"clock", newest.clock()}, {"folder", newest.folder()}};
}

json job_in_short(const pb::JobStatus& job) {
  const JobFigures figures = figures_of(job);
  const int tests = job.evaluations_size();
  // A list of jobs does not name each member of one that ended long ago.
  const bool is_ended = job.state() >= pb::DONE;
  const auto workers =
      job.workers_size() + (is_ended ? static_cast<std::int64_t>(job.former_workers()) : 0);
  return {{"id", job.job()},
          {"name", job.name()},
          {"state", state_word(job.state())},
          {"message", job.message()},
          {"advice", job.advice()},
          {"mode", job.mode()},
          {"slack", slack_of(job)},
          {"epoch", job.epoch()},
          {"max_iter", job.max_iter()},
          {"running_s", number(job.running_s(), 1e3)},
          {"clock", figures.slowest},
          {"fastest", figures.fastest},
          {"loss", number(figures.loss, 1e6)},
          {"rate", number(job.rate(), 10)},
          {"rate_unit", job.rate_unit()},
          {"images_per_second", number(job.rate(), 10)},  // the older name of `rate`
          {"left_s", job.left_s() > 0 ? number(job.left_s(), 10) : json()},
          {"accuracy", tests > 0 ? number(job.evaluations(tests - 1).accuracy(), 1e6) : json()},
          {"workers", workers}};
}

/// A job's place in the queue, what it has and what it waits for.
json queued(const pb::JobStatus& job) {
  json names = json::array();
  int working = 0;
  for (const pb::WorkerStatus& worker : job.workers()) {
    if (worker.state() != pb::PROCESS_RUNNING) continue;
    if (++working <= kNamesShown) names.push_back(worker.name());
  }
  return {{"id", job.job()},
          {"name", job.name()},
          {"state", state_word(job.state())},
          {"message", job.message()},
          {"place", job.place() > 0 ? json(job.place()) : json()},
          {"user", job.user()},
          {"priority", job.priority()},
          {"held", job.held()},
          {"working", working},
          {"required_workers", job.required_workers()},
          {"max_workers", job.max_workers()},
          {"worker_names", names}};
}

/// Running jobs, then waiting ones by their places, then those that are held.
json queue_of(const pb::StatusReply& status) {
  std::vector<const pb::JobStatus*> jobs;
  for (const pb::JobStatus& job : status.jobs()) {
    if (job.state() == pb::RUNNING || job.state() == pb::SUBMITTED) jobs.push_back(&job);
  }
  const auto order = [](const pb::JobStatus* job) {
    const int rank = job->state() == pb::RUNNING ? 0 : job->held() ? 2 : 1;
    return std::tuple(rank, job->place(), job->job());
  };
  std::ranges::stable_sort(jobs, {}, order);
  const auto running = std::ranges::count(jobs, pb::RUNNING, &pb::JobStatus::state);
  json shown = json::array();
  for (const pb::JobStatus* job : jobs) {
    if (shown.size() < kQueueShown) shown.push_back(queued(*job));
  }
  return {{"running", running},
          {"waiting", static_cast<std::int64_t>(jobs.size()) - running},
          {"jobs", shown}};
}

json tests_of(const pb::JobStatus& job) {
  json clocks = json::array();
  json accuracies = json::array();
  json losses = json::array();
  for (int i = std::max(0, job.evaluations_size() - kTestsShown); i < job.evaluations_size(); ++i) {
    clocks.push_back(job.evaluations(i).clock());
    accuracies.push_back(number(job.evaluations(i).accuracy(), 1e6));
    losses.push_back(number(job.evaluations(i).loss(), 1e6));
  }
  return {{"clock", clocks}, {"accuracy", accuracies}, {"loss", losses}};
}

json workers_of(const pb::JobStatus& job) {
  json columns = {
      {"name", json::array()},      {"state", json::array()},  {"clock", json::array()},
      {"loss", json::array()},      {"images", json::array()}, {"rate", json::array()},
      {"compute_s", json::array()}, {"wait_s", json::array()}, {"silent_s", json::array()},
      {"is_stale", json::array()},  {"at", json::array()},     {"share", json::array()}};
  std::map<std::uint32_t, std::int64_t> at;
  for (const auto& member : job.clocks().members()) at[member.worker()] = member.clock();
  for (const pb::WorkerStatus& worker : job.workers()) {
    const pb::Progress& own = worker.progress();
    columns["name"].push_back(worker.name());
    columns["state"].push_back(state_word(worker));
    columns["clock"].push_back(own.clock());
    columns["loss"].push_back(number(own.loss(), 1e4));
    columns["images"].push_back(own.images());
    columns["rate"].push_back(number(worker.rate(), 1));
    columns["compute_s"].push_back(number(own.compute_s(), 1e2));
    columns["wait_s"].push_back(number(own.wait_s(), 1e2));
    columns["silent_s"].push_back(number(worker.silent_s(), 1e3));
    columns["is_stale"].push_back(worker.is_stale());
    columns["share"].push_back(own.share() > 0 ? json(own.share()) : json());
    const auto known = at.find(worker.worker());
    columns["at"].push_back(known == at.end() ? json() : json(known->second));
  }
  columns["images_per_second"] = columns["rate"];  // its older name
  return columns;
}

json servers_of(const pb::StatusReply& status) {
  json servers = json::array();
  for (const pb::ServerStatus& server : status.servers()) {
    json shards = json::array();
    for (const pb::ShardLoad& load : server.loads()) {
      shards.push_back(
          {number(load.busy_s(), 1e3), load.messages_in(), load.bytes_in(), load.bytes_out()});
    }
    servers.push_back({{"name", server.name()},
                       {"state", state_word(server)},
                       {"silent_s", number(server.silent_s(), 10)},
                       {"shard_count", server.shards()},
                       {"shards", shards}});
  }
  return servers;
}

}  // namespace

json slack_json(std::int64_t slack) {
  return Slack(slack).is_unbounded() ? json() : json(slack);
}

json staleness_of(const pb::JobStatus& job) {
  std::map<std::int64_t, std::uint64_t> reads;
  for (const pb::WorkerStatus& worker : job.workers()) {
    for (const pb::StalenessBin& bin : worker.progress().staleness()) {
      reads[bin.staleness()] += bin.reads();
    }
  }
  json bins = json::array();
  for (const auto& [staleness, count] : reads) bins.push_back({staleness, count});
  return bins;
}

json shards_of(const pb::JobStatus& job) {
  json shards = json::array();
  for (const pb::ShardStatus& shard : job.shards()) {
    json backups = json::array();
    for (const pb::BackupStatus& backup : shard.backups()) {
      const bool is_known = backup.has_behind_s();
      backups.push_back({{"server", backup.server()},
                         {"is_whole", backup.is_whole()},
                         {"behind_s", is_known ? number(backup.behind_s(), 1e3) : json()},
                         {"behind_clocks", is_known ? json(backup.behind_clocks()) : json()}});
    }
    shards.push_back({{"server", shard.server()},
                      {"term", shard.term()},
                      {"backups", std::move(backups)},
                      {"wanted_backups", required_backups(job)},
                      {"is_protected", shard.is_protected()},
                      {"problem", shard.problem().empty() ? json() : json(shard.problem())}});
  }
  return shards;
}

json no_backups_of(const pb::JobStatus& job) {
  if (!job.has_no_backups()) return json();
  return {{"shards", job.no_backups().shards()}, {"reason", job.no_backups().reason()}};
}

json followers_of(const pb::JobStatus& job) {
  json followers = json::array();
  for (const pb::FollowerStatus& one : job.followers()) {
    followers.push_back({{"name", one.name()},
                         {"bounded", one.bounded()},
                         {"version", one.version() < 0 ? json() : json(one.version())},
                         {"behind", one.behind() < 0 ? json() : json(one.behind())},
                         {"source", one.source().empty() ? json() : json(one.source())},
                         {"silent_s", number(one.silent_s(), 10)}});
  }
  return followers;
}

JobFigures figures_of(const pb::JobStatus& job) {
  JobFigures figures;
  figures.slowest = std::numeric_limits<std::int64_t>::max();
  double begun = 0;
  for (const pb::WorkerStatus& worker : job.workers()) {
    if (worker.state() == pb::PROCESS_LOST) continue;
    const pb::Progress& own = worker.progress();
    figures.slowest = std::min(figures.slowest, own.clock());
    figures.fastest = std::max(figures.fastest, own.clock());
    if (own.images() == 0) continue;
    // If a batch is divided by speed, each worker counts by its share.
    const double share = own.share() > 0 ? own.share() : 1;
    begun += share;
    figures.loss += share * own.loss();
  }
  if (figures.slowest == std::numeric_limits<std::int64_t>::max()) figures.slowest = 0;
  if (!job.clocks().members().empty()) {
    // From one shard at one moment, whereas workers report at different ones.
    figures.slowest = figures.fastest = job.clocks().version();
    for (const auto& member : job.clocks().members()) {
      figures.fastest = std::max(figures.fastest, member.clock());
    }
  }
  if (begun > 0) figures.loss /= begun;
  return figures;
}

const pb::JobStatus* shown_job(const pb::StatusReply& status, std::uint64_t requested) {
  const pb::JobStatus* newest = nullptr;
  for (const pb::JobStatus& job : status.jobs()) {
    if (requested != 0 ? job.job() == requested : job.state() == pb::RUNNING) return &job;
    newest = &job;
  }
  return requested != 0 ? nullptr : newest;
}

json status_json(const pb::StatusReply& status, double unix_time_s, std::uint64_t job) {
  json jobs = json::array();
  for (int i = status.jobs_size() - 1; i >= std::max(0, status.jobs_size() - kJobsShown); --i) {
    jobs.push_back(job_in_short(status.jobs(i)));
  }
  json idle = json::array();
  for (const pb::WorkerStatus& worker : status.workers()) {
    if (worker.state() != pb::PROCESS_RUNNING) {
      idle.push_back({worker.name(), state_word(worker)});
    }
  }
  json log = json::array();
  for (int i = std::max(0, status.log_size() - kLogLines); i < status.log_size(); ++i) {
    log.push_back({number(status.log(i).unix_time_s(), 1e3), status.log(i).text()});
  }
  json all = {{"time", number(unix_time_s, 1e3)},
              {"build", build_name()},
              {"trace", status.trace() == pb::TRACE_ON},
              {"jobs", jobs},
              {"queue", queue_of(status)},
              {"job", nullptr},
              {"servers", servers_of(status)},
              {"idle", idle},
              {"log", log}};
  if (const pb::JobStatus* full = shown_job(status, job)) {
    all["job"] = job_in_short(*full);
    all["job"]["tests"] = tests_of(*full);
    all["job"]["by_worker"] = workers_of(*full);
    all["job"]["version"] =
        full->clocks().members().empty() ? json() : json(full->clocks().version());
    all["job"]["clocks_age_s"] = number(full->clocks_age_s(), 10);
    all["job"]["staleness"] = staleness_of(*full);
    all["job"]["sha256"] = full->parameters_sha256();
    all["job"]["checkpoint"] = newest_checkpoint(*full);
    all["job"]["checkpoint_failure"] = full->checkpoint_failure();
    all["job"]["run_folder"] = full->run_folder();
    all["job"]["shards"] = shards_of(*full);
    all["job"]["no_backups"] = no_backups_of(*full);
    all["job"]["followers"] = followers_of(*full);
    all["job"]["cut_followers"] = full->cut_followers();
  }
  return all;
}

std::string to_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace taut::dashboard
