#include "server/server_jobs.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "proto/config/job_state.hpp"

namespace taut::server {

std::shared_ptr<const JobView> ServerJobs::take_job(const pb::ServerJob& job) {
  // The message that a job is over arrived after another one had started.
  if (!job.finished()) {
    std::erase_if(jobs_, [&](const auto& entry) {
      return entry.second.finished && entry.first != job.job();
    });
  }
  Progress& progress = jobs_[job.job()];
  // A repeated message is answered again: the answer may have been lost.
  changed_ = true;
  if (progress.revision >= job.revision()) return nullptr;
  auto view = make_job_view(job);
  progress = Progress{job.revision(),
                      job.finished(),
                      {},
                      view ? progress.failure : view.error().message,
                      std::move(progress.failure),
                      std::move(progress.parts)};
  return view ? view.value() : nullptr;
}

void ServerJobs::take_report(std::size_t shard, ShardReport report) {
  const auto found = jobs_.find(report.job.value());
  if (found == jobs_.end() || found->second.revision != report.revision) return;
  found->second.reports[shard] = std::move(report);
  changed_ = true;
}

void ServerJobs::take_part(std::size_t shard, JobId job, ShardPart part) {
  const auto found = jobs_.find(job.value());
  if (found == jobs_.end()) return;
  auto& parts = found->second.parts;
  const std::uint64_t newest = parts.empty() ? 0 : parts.begin()->second.number;
  if (part.number < newest) return;
  if (part.number > newest) parts.clear();
  parts[shard] = std::move(part);
  changed_ = true;
}

void ServerJobs::fail(JobId job, const std::string& why) {
  const auto found = jobs_.find(job.value());
  if (found == jobs_.end()) return;
  found->second.failure = found->second.error = why;
  changed_ = true;
}

std::vector<std::shared_ptr<const JobView>> ServerJobs::clear() {
  std::vector<std::shared_ptr<const JobView>> over;
  for (const auto& [job, progress] : std::exchange(jobs_, {})) {
    auto view = std::make_shared<JobView>();
    view->job = JobId(job);
    // No report of a shard about it can then answer a later message.
    view->revision = std::numeric_limits<std::uint64_t>::max();
    view->finished = true;
    over.push_back(std::move(view));
  }
  return over;
}

std::optional<pb::Heartbeat> ServerJobs::take_news() {
  if (!std::exchange(changed_, false)) return std::nullopt;
  pb::Heartbeat content;
  for (const auto& [job, progress] : jobs_) {
    if (!progress.error.empty() || progress.reports.size() == shards_) {
      fill(job, progress, *content.add_jobs());
    }
  }
  return content;
}

void ServerJobs::fill(std::uint64_t job, const Progress& progress,
                      pb::ServerJobReply& reply) const {
  reply.set_job(job);
  reply.set_revision(progress.revision);
  reply.set_error(progress.error);
  std::map<WorkerId, Clock> fenced;
  reply.set_min_version(Clock::never().value());
  for (const auto& [shard, report] : progress.reports) {
    reply.set_min_version(std::min(reply.min_version(), report.min_version.value()));
    reply.set_max_done(std::max(reply.max_done(), report.max_done.value()));
    reply.set_settling(reply.settling() || report.settling);
    if (reply.error().empty()) reply.set_error(report.error);
    for (const ShardReport::Copy& copy : report.copies) {
      pb::ShardCopy& one = *reply.add_copies();
      one.set_shard(copy.shard.value());
      one.set_choice(copy.choice);
      one.set_complete(copy.is_complete);
    }
    for (const ImageSender::Problem& problem : report.problems) {
      pb::BackupProblem& one = *reply.add_problems();
      one.set_shard(problem.shard.value());
      one.set_term(problem.term);
      one.set_choice(problem.choice);
      one.set_reason(problem.reason);
    }
    for (const auto& [worker, done] : report.fenced) {
      const auto [entry, added] = fenced.emplace(worker, done);
      if (!added) entry->second = std::min(entry->second, done);
    }
  }
  std::map<WorkerId, std::uint64_t> bad;
  for (const auto& [shard, report] : progress.reports) {
    for (const auto& [worker, clocks] : report.bad_updates) {
      bad[worker] = std::max(bad[worker], clocks);
    }
  }
  for (const auto& [worker, clocks] : bad) {
    pb::BadUpdates& one = *reply.add_bad_updates();
    one.set_worker(worker.value());
    one.set_clocks(clocks);
  }
  for (const auto& [worker, done] : fenced) {
    pb::FencedProgress& one = *reply.add_fenced();
    one.set_worker(worker.value());
    one.set_min_done(done.value());
  }
  if (!progress.parts.empty()) fill_part(progress, *reply.mutable_checkpoint());
}

void ServerJobs::fill_part(const Progress& progress, pb::CheckpointPart& part) const {
  part.set_number(progress.parts.begin()->second.number);
  std::size_t written = 0;
  for (const auto& [shard, one] : progress.parts) {
    if (one.missed) {
      part.set_missed(true);
    } else if (!one.error.empty()) {
      if (part.error().empty()) part.set_error(one.error);
    } else {
      ++written;
      for (const pb::CheckpointFile& file : one.files) {
        const bool is_new = std::ranges::none_of(
            part.files(), [&](const auto& known) { return known.name() == file.name(); });
        if (is_new) *part.add_files() = file;
      }
    }
  }
  part.set_written(written == shards_);
  for (const TableSpec& table : progress.parts.begin()->second.tables) {
    pb::TableSpec& saved = *part.add_tables();
    saved = to_wire(table);
    // How many rows a batch names is not saved.
    if (saved.has_rows()) saved.mutable_rows()->clear_clock_rows();
  }
}

}  // namespace taut::server
