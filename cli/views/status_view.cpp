#include "cli/views/status_view.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

/// A running job's block shows why the newest checkpoint was not written.
std::string note_of(const pb::JobStatus& job) {
  std::vector<std::string> notes{job.message(), job.advice()};
  const bool is_said = job.message().find(job.checkpoint_failure()) != std::string::npos;
  if (job.state() != pb::RUNNING && !is_said) notes.push_back(job.checkpoint_failure());
  std::erase(notes, "");
  return fmt::format("{}", fmt::join(notes, "; "));
}

std::vector<std::string> job_table(const pb::StatusReply& status) {
  std::vector<Row> rows{{"JOB", "NAME", "STATE", "MODE", "ITERATION", "ACCURACY", "TIME", "NOTE"}};
  for (const pb::JobStatus& job : status.jobs()) {
    const int tests = job.evaluations_size();
    rows.push_back(
        {fmt::format("{}", job.job()), job.name(), state_word(job.state()), mode_name(job),
         job.max_iter() > 0 ? fmt::format("{}/{}", progress_of(job).iteration, job.max_iter())
                            : fmt::format("{}", progress_of(job).iteration),
         tests > 0 ? accuracy_text(job.evaluations(tests - 1)) : "-", clock_time(job.running_s()),
         note_of(job)});
  }
  return aligned(rows, {true});
}

/// Readers of running jobs, and how far behind they are.
std::vector<std::string> follower_table(const pb::StatusReply& status) {
  std::vector<Row> rows{{"FOLLOWER", "JOB", "VERSION", "BEHIND", "READS FROM", "HEARD", "KIND"}};
  for (const pb::JobStatus& job : status.jobs()) {
    for (const pb::FollowerStatus& one : job.followers()) {
      rows.push_back({one.name(), fmt::format("{}", job.job()),
                      one.version() < 0 ? "none yet" : fmt::format("{}", one.version()),
                      one.behind() < 0 ? "-" : counted(one.behind(), "clock"),
                      one.source().empty() ? "servers" : one.source(),
                      fmt::format("{:.1f} s ago", one.silent_s()),
                      one.bounded() ? "bounded" : "plain"});
    }
  }
  return rows.size() == 1 ? std::vector<std::string>() : aligned(rows);
}

/// For a running job that divides its batch by speed; empty if it does not.
std::string shares_line(const pb::JobStatus& job) {
  std::string shares;
  for (const pb::WorkerStatus& worker : job.workers()) {
    if (worker.state() != pb::PROCESS_RUNNING || worker.progress().share() == 0) continue;
    shares += fmt::format("{}{} {}", shares.empty() ? "  records of a batch: " : ", ",
                          worker.name(), worker.progress().share());
  }
  return shares;
}

/// For a job on one server, or with replication { interval: 0 }; empty if its shards have backups.
/// A training does not show it, since on a laptop this is normal.
std::string no_backups_line(const pb::JobStatus& job) {
  if (!job.has_no_backups()) return {};
  return "no shard has a backup: " + job.no_backups().reason();
}

std::vector<std::string> process_table(const pb::StatusReply& status) {
  std::vector<Row> rows{{"PROCESS", "ROLE", "STATE", "HEARD", "HAS"}};
  for (const pb::ServerStatus& server : status.servers()) {
    std::uint64_t table_rows = 0;
    for (const pb::ShardLoad& load : server.loads()) table_rows += load.rows();
    std::string has = counted(server.shards(), "shard");
    if (table_rows > 0)
      has += ", " + counted(static_cast<std::int64_t>(table_rows), "row") + " of tables";
    rows.push_back({server.name(), "server", state_word(server),
                    fmt::format("{:.1f} s ago", server.silent_s()), has});
  }
  for (const pb::WorkerStatus& worker : status.workers()) {
    rows.push_back({worker.name(), "worker", state_word(worker),
                    fmt::format("{:.1f} s ago", worker.silent_s()), worker.device()});
  }
  return aligned(rows);
}

}  // namespace

std::vector<std::string> status_view(const pb::StatusReply& status, int width) {
  std::vector<std::string> lines;
  if (!status.unsaved().empty()) {
    lines.push_back("nothing new is confirmed: " + status.unsaved());
    lines.emplace_back();
  }
  if (status.jobs().empty()) {
    lines.emplace_back("no jobs yet; tautline submit JOB submits one");
  } else {
    append(lines, job_table(status));
  }
  for (const pb::JobStatus& job : status.jobs()) {
    if (job.state() != pb::RUNNING) continue;
    lines.emplace_back();
    append(lines, progress_block(job, width));
    if (std::string line = no_backups_line(job); !line.empty()) lines.push_back(std::move(line));
    if (std::string shares = shares_line(job); !shares.empty()) lines.push_back(std::move(shares));
    if (!job.checkpoint_failure().empty()) lines.push_back("  " + job.checkpoint_failure());
  }
  if (const auto followers = follower_table(status); !followers.empty()) {
    lines.emplace_back();
    append(lines, followers);
  }
  lines.emplace_back();
  append(lines, process_table(status));
  return lines;
}

}  // namespace taut::cli
