#include "cli/views/queue_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

constexpr std::size_t kNameWidth = 24;
constexpr std::size_t kUserWidth = 16;
constexpr int kNamesShown = 4;  // of a job's workers

/// The names of the workers that work for a job, at most the first few.
struct Working {
  std::string names;
  int count = 0;
};

Working working(const pb::JobStatus& job) {
  Working all;
  for (const pb::WorkerStatus& worker : job.workers()) {
    if (worker.state() != pb::PROCESS_RUNNING) continue;
    if (all.count < kNamesShown) {
      all.names += fmt::format("{}{}", all.names.empty() ? "" : ", ", worker.name());
    }
    ++all.count;
  }
  if (all.count > kNamesShown) all.names += fmt::format(" and {} more", all.count - kNamesShown);
  return all;
}

/// "2", or for a job that may have more or fewer "2 to 4", "2 of 4".
std::string with_limit(std::uint32_t count, const char* word, std::uint32_t limit) {
  return count >= limit ? std::to_string(count) : fmt::format("{} {} {}", count, word, limit);
}

/// Running jobs first, then waiting ones, by their places; held ones last.
bool goes_before(const pb::JobStatus* a, const pb::JobStatus* b) {
  const auto rank = [](const pb::JobStatus& job) {
    return job.state() != pb::SUBMITTED ? 0 : job.held() ? 2 : 1;
  };
  if (rank(*a) != rank(*b)) return rank(*a) < rank(*b);
  return a->place() != b->place() ? a->place() < b->place() : a->job() < b->job();
}

Row row_of(const pb::JobStatus& job) {
  const bool waits = job.state() == pb::SUBMITTED;
  const Working has = working(job);
  std::string words = waits ? job.message() : has.names;
  if (job.left_s() > 0) words += fmt::format("; {} left", clock_time(job.left_s()));
  return {job.place() > 0 ? std::to_string(job.place()) : std::string(),
          std::to_string(job.job()),
          fit_name(job.name(), kNameWidth),
          job.user().empty() ? "-" : fit_name(job.user(), kUserWidth),
          waits ? (job.held() ? "held" : "waiting") : state_word(job.state()),
          std::to_string(job.priority()),
          waits ? with_limit(job.required_workers(), "to", job.max_workers())
                : with_limit(static_cast<std::uint32_t>(has.count), "of", job.max_workers()),
          words};
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
  std::vector<Row> rows{{"place", "job", "name", "user", "state", "priority", "workers", ""}};
  for (const pb::JobStatus* job : jobs) rows.push_back(row_of(*job));
  for (std::string& line : aligned(rows, {true, true, false, false, false, true, true, false})) {
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace taut::cli
