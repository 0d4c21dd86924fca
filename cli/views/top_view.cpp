#include "cli/views/top_view.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "cli/views/worker_marks.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

constexpr int kBarWidth = 24;
constexpr int kShardsShown = 8;
constexpr int kBinsShown = 6;

void append(std::vector<std::string>& lines, std::vector<std::string> more) {
  for (std::string& line : more) lines.push_back(std::move(line));
}

/// The running jobs that are not shown, in a line; empty if there are none.
std::string others(const pb::StatusReply& status, std::uint64_t shown) {
  std::string numbers;
  for (const pb::JobStatus& job : status.jobs()) {
    if (job.state() != pb::RUNNING || job.job() == shown) continue;
    numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", job.job());
  }
  if (numbers.empty()) return {};
  return fmt::format("jobs that run too: {} (tautline top JOB)", numbers);
}

std::vector<std::string> log_lines(const pb::StatusReply& status, int max_lines) {
  std::vector<std::string> lines;
  for (int i = std::max(0, status.log_size() - max_lines); i < status.log_size(); ++i) {
    const auto when = static_cast<std::time_t>(status.log(i).unix_time_s());
    lines.push_back(fmt::format("{:%H:%M:%S}  {}", fmt::localtime(when), status.log(i).text()));
  }
  return lines;
}

}  // namespace

pb::JobStatus slowest_workers(const pb::JobStatus& job, int max_lines) {
  pb::JobStatus few = job;
  auto& workers = *few.mutable_workers();
  if (workers.size() <= max_lines) return few;
  std::stable_sort(workers.begin(), workers.end(),
                   [](const pb::WorkerStatus& a, const pb::WorkerStatus& b) {
                     return a.progress().clock() < b.progress().clock();
                   });
  workers.DeleteSubrange(max_lines, workers.size() - max_lines);
  return few;
}

const pb::JobStatus* TopView::shown_job(const pb::StatusReply& status) const {
  for (const pb::JobStatus& job : status.jobs()) {
    if (job_ == JobId() ? job.state() == pb::RUNNING : job.job() == job_.value()) return &job;
  }
  if (status.jobs().empty() || job_ != JobId()) return nullptr;
  return &status.jobs(status.jobs_size() - 1);
}

std::vector<std::string> TopView::shards(const pb::StatusReply& status, double span_s,
                                         int bar_width) const {
  std::vector<std::pair<double, Row>> all;
  for (const pb::ServerStatus& server : status.servers()) {
    const auto old =
        std::find_if(before_.servers().begin(), before_.servers().end(),
                     [&](const pb::ServerStatus& one) { return one.name() == server.name(); });
    for (int i = 0; i < server.loads_size(); ++i) {
      const bool has_old = old != before_.servers().end() && i < old->loads_size();
      const auto rate = [&](double value, double then) {
        return has_old && span_s > 0 ? std::max(0.0, (value - then) / span_s) : 0.0;
      };
      const pb::ShardLoad& load = server.loads(i);
      const pb::ShardLoad then = has_old ? old->loads(i) : load;
      const double busy = std::min(1.0, rate(load.busy_s(), then.busy_s()));
      const auto as_double = [](std::uint64_t number) { return static_cast<double>(number); };
      const double bytes = rate(as_double(load.bytes_in() + load.bytes_out()),
                                as_double(then.bytes_in() + then.bytes_out()));
      const double messages = rate(as_double(load.messages_in()), as_double(then.messages_in()));
      std::string state(state_word(server));
      if (load.rows() > 0) state += ", " + counted(static_cast<std::int64_t>(load.rows()), "row");
      all.push_back(
          {busy,
           {fmt::format("{}/{}", server.name(), i), bar(busy, bar_width),
            fmt::format("{:.0f} % busy", 100 * busy), fmt::format("{:.0f} msg/s", messages),
            fmt::format("{:.1f} MB/s", bytes / 1e6), state}});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Row> rows;
  for (const auto& [busy, row] : all) {
    if (rows.size() == kShardsShown) break;
    rows.push_back(row);
  }
  auto lines = aligned(rows, {false, false, true, true, true, false});
  if (all.size() > rows.size()) {
    lines.push_back(fmt::format("the {} busiest of {} shards", rows.size(), all.size()));
  }
  return lines;
}

std::vector<std::string> TopView::draw(const pb::StatusReply& status, TimePoint now, int width,
                                       int height) {
  const double span_s = before_.servers().empty() ? 0 : seconds(now - drawn_);
  std::vector<std::string> lines;
  if (const pb::JobStatus* job = shown_job(status)) {
    const int room = std::clamp(height - 24, 4, 40);
    waits_.take(*job, now);
    const WaitShares recent = waits_.shares();
    append(lines, progress_block(slowest_workers(*job, room), width, {}, colours_, &recent));
    if (job->workers_size() > room) {
      lines.push_back(
          fmt::format("the {} slowest of {}", room, counted(job->workers_size(), "worker")));
    }
    if (std::string more = others(status, job->job()); !more.empty()) {
      lines.push_back(std::move(more));
    }
    const auto reads = staleness_of(*job);
    if (!reads.empty()) {
      lines.insert(lines.end(), {"", "staleness of reads, in clocks"});
      append(lines, histogram(reads, std::max(width - 40, kBarWidth), kBinsShown));
    }
  } else {
    lines.push_back(job_ == JobId() ? "no jobs yet; tautline submit JOB submits one"
                                    : fmt::format("job {} does not exist; tautline status lists "
                                                  "the jobs",
                                                  job_.value()));
  }
  lines.emplace_back();
  append(lines, shards(status, span_s, std::max(width - 60, kBarWidth)));
  lines.emplace_back();
  append(lines, log_lines(status, 5));
  // The last line lists the keys.
  if (std::ssize(lines) >= height - 1) {
    lines.resize(static_cast<std::size_t>(std::max(1, height - 2)));
  }
  lines.emplace_back("q or Ctrl-C: end");
  before_ = status;
  drawn_ = now;
  return lines;
}

}  // namespace taut::cli
