#include "cli/views/queue_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

constexpr std::size_t kNameWidth = 24;

std::int64_t working(const pb::JobStatus& job) {
  return std::ranges::count(job.workers(), pb::PROCESS_RUNNING, &pb::WorkerStatus::state);
}

/// Running ones first, then those that wait, by priority; held ones last.
bool goes_before(const pb::JobStatus* a, const pb::JobStatus* b) {
  const auto rank = [](const pb::JobStatus& job) {
    return job.state() != pb::SUBMITTED ? 0 : job.held() ? 2 : 1;
  };
  if (rank(*a) != rank(*b)) return rank(*a) < rank(*b);
  return rank(*a) == 0 || a->priority() == b->priority() ? a->job() < b->job()
                                                         : a->priority() > b->priority();
}

Row row_of(const pb::JobStatus& job) {
  const bool waits = job.state() == pb::SUBMITTED;
  const std::string left = job.left_s() > 0 ? "left " + clock_time(job.left_s()) : std::string();
  return {std::to_string(job.job()),
          fit_name(job.name(), kNameWidth),
          waits ? (job.held() ? "held" : "waiting") : state_word(job.state()),
          std::to_string(job.priority()),
          std::to_string(waits ? job.required_workers() : working(job)),
          waits ? job.message() : left};
}

}  // namespace

std::vector<std::string> queue_lines(const pb::StatusReply& status) {
  std::vector<const pb::JobStatus*> jobs;
  for (const pb::JobStatus& job : status.jobs()) {
    if (!has_ended(job.state())) jobs.push_back(&job);
  }
  std::ranges::stable_sort(jobs, goes_before);
  const auto in_state = [&](pb::ProcessState state) {
    return std::ranges::count(status.workers(), state, &pb::WorkerStatus::state);
  };
  std::vector<std::string> lines{fmt::format("{} busy, {} idle",
                                             counted(in_state(pb::PROCESS_RUNNING), "worker"),
                                             in_state(pb::PROCESS_IDLE))};
  if (jobs.empty()) {
    lines.emplace_back("no job runs or waits");
    return lines;
  }
  std::vector<Row> rows{{"job", "name", "state", "priority", "workers", ""}};
  for (const pb::JobStatus* job : jobs) rows.push_back(row_of(*job));
  for (std::string& line : aligned(rows, {true, false, false, true, true, false})) {
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace taut::cli
