#include "server/coordinator/job_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/types.hpp"
#include "proto/config/job_words.hpp"
#include "server/coordinator/placement/shard_status.hpp"

namespace taut {
namespace {

// The figures of a worker that was silent for longer are stale.
constexpr Duration kStale{3'000'000};

const char* mode_name(std::int64_t slack) {
  if (slack == 0) return "BSP";
  return Slack(slack).is_unbounded() ? "ASYNC" : "SSP";
}

pb::ProcessState state_of(const JobRecord& job, const pb::StoredMember& member) {
  if (member.finished()) return pb::PROCESS_FINISHED;
  if (member.lost()) return pb::PROCESS_LOST;
  return job.has_ended() ? pb::PROCESS_IDLE : pb::PROCESS_RUNNING;
}

// The pace of a shorter training is mostly that of its first clocks.
constexpr double kPaceKnown_s = 3;

/// The clocks that a worker's process has trained, and the time that they took.
struct Pace {
  std::int64_t clock = 0;
  std::int64_t trained = 0;  // from where it began: the checkpoint, or where it joined
  double seconds = 0;
};

/// Seconds left at the slowest worker's mean pace since its first clock; 0: not known yet.
double left_s(const pb::JobStatus& status, const Pace& slowest) {
  const std::int64_t left = status.max_iter() - slowest.clock;
  if (status.state() != pb::RUNNING || left <= 0) return 0;
  if (slowest.trained <= 0 || slowest.seconds < kPaceKnown_s) return 0;
  return slowest.seconds * static_cast<double>(left) / static_cast<double>(slowest.trained);
}

/// A member's report, and how long its process has been silent.
/// index  of the member in its job
pb::WorkerStatus member_status(const JobRecord& job, std::size_t index, const Registry& registry,
                               TimePoint now) {
  const pb::StoredMember& stored = job.stored().members(static_cast<int>(index));
  const pb::Member& member = stored.member();
  pb::WorkerStatus status;
  status.set_name(member.name());
  status.set_worker(member.worker());
  status.set_state(state_of(job, stored));
  *status.mutable_progress() = stored.progress();
  status.set_device(stored.device());
  status.set_bad_updates(job.workers[index].bad_updates);
  const Participant* process = registry.find(pb::ROLE_WORKER, member.name());
  if (process != nullptr && process->incarnation.value() == member.incarnation()) {
    status.set_silent_s(seconds(now - process->last_heard));
    status.set_is_stale(now - process->last_heard > kStale);
  }
  return status;
}

/// The clocks that every member which is not lost has trained; below 0 if there is none.
std::int64_t trained_clocks(const JobRecord& job) {
  std::int64_t lowest = -1;
  for (const pb::StoredMember& member : job.stored().members()) {
    if (member.lost()) continue;
    const std::int64_t clock = member.progress().clock();
    lowest = lowest < 0 ? clock : std::min(lowest, clock);
  }
  return lowest;
}

void add_followers(const JobRecord& job, TimePoint now, pb::JobStatus& status) {
  const std::int64_t trained = trained_clocks(job);
  for (const auto& [id, follower] : job.followers.all()) {
    pb::FollowerStatus& one = *status.add_followers();
    one.set_name(follower.name);
    one.set_follower(id.value());
    one.set_bounded(follower.bounded);
    one.set_version(follower.version.value());
    const bool is_known = trained >= 0 && follower.version >= Clock(0);
    // Members report less often than followers read.
    one.set_behind(is_known ? std::max<std::int64_t>(trained - follower.version.value(), 0) : -1);
    one.set_silent_s(seconds(now - follower.last_heard));
    one.set_passes_on(!follower.address.empty());
    one.set_received_bytes(follower.received);
    one.set_passed_bytes(follower.passed);
    if (const auto* source = job.followers.source_of(follower)) one.set_source(source->name);
  }
  status.set_cut_followers(job.stored().cuts());
}

}  // namespace

std::string advice_for(const pb::StoredJob& stored) {
  if (stored.state() != pb::FAILED && stored.state() != pb::STOPPED) return {};
  if (stored.restarted_as() != 0) return fmt::format("job {} continues it", stored.restarted_as());
  if (stored.checkpoints().empty()) return {};
  const pb::KeptCheckpoint& newest = stored.checkpoints(stored.checkpoints_size() - 1);
  if (stored.diverged()) {
    return fmt::format(
        "with a lower base_lr, tautline submit --resume {} continues from its last good "
        "checkpoint, of clock {}",
        newest.folder(), newest.clock());
  }
  // The job's message names the checkpoint that was written when it was stopped.
  if (stored.state() == pb::STOPPED)
    return fmt::format("tautline resume {} continues it", stored.job());
  return fmt::format("tautline resume {} continues from clock {}: {}", stored.job(), newest.clock(),
                     newest.folder());
}

pb::JobStatus job_status(const JobRecord& job, const Registry& registry, const std::string& waiting,
                         TimePoint now) {
  const pb::StoredJob& stored = job.stored();
  pb::JobStatus status;
  status.set_job(stored.job());
  status.set_name(stored.definition().name());
  status.set_state(stored.state());
  status.set_message(stored.state() == pb::SUBMITTED ? waiting : stored.message());
  status.set_advice(advice_for(stored));
  status.set_mode(mode_name(stored.slack()));
  status.set_slack(stored.slack());
  status.set_epoch(stored.epoch());
  status.set_max_iter(stored.definition().solver_param().max_iter());
  const JobWords words = words_of(stored.definition());
  double running = 0;
  Pace slowest{stored.definition().solver_param().max_iter()};
  for (const pb::StoredMember& stored_member : stored.members()) {
    pb::WorkerStatus& worker = *status.add_workers();
    const auto index = static_cast<std::size_t>(status.workers_size() - 1);
    worker = member_status(job, index, registry, now);
    if (worker.state() == pb::PROCESS_RUNNING && !worker.is_stale()) {
      worker.set_rate(words.items_per_record * worker.progress().images_per_second());
      running += worker.rate();
    }
    const std::int64_t from =
        std::max(stored_member.member().join_clock(), stored.resume().clock());
    const std::int64_t clock = std::max(worker.progress().clock(), from);
    if (worker.state() != pb::PROCESS_LOST && clock < slowest.clock) {
      slowest = {clock, clock - from, worker.progress().trained_s()};
    }
  }
  const bool has_ended = stored.state() >= pb::DONE;
  status.set_rate(has_ended ? words.items_per_record * stored.records_per_second() : running);
  status.set_rate_unit(words.rate());
  *status.mutable_evaluations() = stored.evaluations();
  std::sort(status.mutable_evaluations()->begin(), status.mutable_evaluations()->end(),
            [](const pb::Evaluation& a, const pb::Evaluation& b) { return a.clock() < b.clock(); });
  status.set_parameters_sha256(stored.parameters_sha256());
  status.set_running_s(job.running_s(now));
  *status.mutable_checkpoints() = stored.checkpoints();
  status.set_checkpoint_failure(stored.checkpoint_failure());
  if (stored.has_resume()) *status.mutable_resume() = stored.resume();
  status.set_restarted_as(stored.restarted_as());
  status.set_diverged(stored.diverged());
  if (stored.has_compression()) *status.mutable_compression() = stored.compression();
  status.set_priority(stored.priority());
  status.set_held(stored.held());
  status.set_user(stored.user());
  status.set_former_workers(stored.former().members());
  *status.mutable_former_staleness() = stored.former().staleness();
  if (stored.state() == pb::RUNNING) {
    for (pb::ShardStatus& shard : shard_status(job)) *status.add_shards() = std::move(shard);
    if (auto bare = no_backups(job)) *status.mutable_no_backups() = *std::move(bare);
  }
  status.set_left_s(left_s(status, slowest));
  add_followers(job, now, status);
  return status;
}

void shorten(pb::JobStatus& status) {
  auto& workers = *status.mutable_workers();
  const auto slowest = std::ranges::min_element(workers, {}, [](const pb::WorkerStatus& one) {
    return std::pair(one.state() == pb::PROCESS_LOST, one.progress().clock());
  });
  if (slowest != workers.begin()) std::swap(*workers.begin(), *slowest);
  std::map<std::int64_t, std::uint64_t> reads;
  const auto add = [&reads](const auto& bins) {
    for (const pb::StalenessBin& bin : bins) reads[bin.staleness()] += bin.reads();
  };
  add(status.former_staleness());
  for (int i = 1; i < workers.size(); ++i) add(workers[i].progress().staleness());
  status.clear_former_staleness();
  for (const auto& [staleness, count] : reads) {
    pb::StalenessBin& bin = *status.add_former_staleness();
    bin.set_staleness(staleness);
    bin.set_reads(count);
  }
  const int others = std::max(workers.size() - 1, 0);
  status.set_former_workers(status.former_workers() + static_cast<std::uint32_t>(others));
  workers.DeleteSubrange(workers.size() - others, others);
  const auto keep_newest = [](auto& list) { list.DeleteSubrange(0, std::max(list.size() - 1, 0)); };
  keep_newest(*status.mutable_evaluations());
  keep_newest(*status.mutable_checkpoints());
}

pb::ServerStatus server_status(const Participant& server, TimePoint now) {
  pb::ServerStatus status;
  status.set_name(server.name);
  status.set_shards(static_cast<std::uint32_t>(server.shard_addresses.size()));
  status.set_state(server.lost ? pb::PROCESS_LOST : pb::PROCESS_LIVE);
  status.set_silent_s(seconds(now - server.last_heard));
  return status;
}

pb::WorkerStatus worker_status(const Participant& worker, JobId job, TimePoint now) {
  pb::WorkerStatus status;
  status.set_name(worker.name);
  status.set_job(job.value());
  status.set_host(worker.host);
  status.set_memory_bytes(worker.memory_bytes);
  status.set_memory_is_own(worker.memory_is_own);
  status.set_devices(worker.devices);
  const pb::ProcessState live_state = job != JobId() ? pb::PROCESS_RUNNING : pb::PROCESS_IDLE;
  status.set_state(worker.lost ? pb::PROCESS_LOST : live_state);
  status.set_silent_s(seconds(now - worker.last_heard));
  status.set_device(worker.device);
  return status;
}

}  // namespace taut
