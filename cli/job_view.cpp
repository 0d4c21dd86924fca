#include "cli/job_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "cli/draw.hpp"
#include "common/types.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

bool takes_part(const pb::WorkerStatus& worker) {
  return worker.state() != "lost";
}

/// Of the time since the job began, what is gone and what is left at the rate until now.
std::string times(const pb::JobStatus& job, std::int64_t iteration) {
  std::string text = fmt::format("elapsed {}", clock_time(job.running_s()));
  if (iteration > 0 && iteration < job.max_iter()) {
    const auto done = static_cast<double>(iteration);
    const auto left = static_cast<double>(job.max_iter() - iteration);
    text += fmt::format("  left {}", clock_time(job.running_s() * left / done));
  }
  return text;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole <= 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Each worker's clock on a scale from the slowest one's to as far as the bound lets one go.
std::vector<std::string> worker_tracks(const pb::JobStatus& job, const JobProgress& progress,
                                       int width) {
  const bool bounded = job.slack() != Slack::unbounded().clocks();
  // A worker that pushed clock c waits for its read at c + 1 no farther ahead than this.
  const std::int64_t bound =
      bounded ? progress.iteration + job.slack() + 1 : std::numeric_limits<std::int64_t>::max();
  std::int64_t last = progress.iteration + progress.apart;
  if (bounded) last = std::max(last, bound);
  std::vector<Row> rows;
  for (const pb::WorkerStatus& worker : job.workers()) {
    const pb::Progress& own = worker.progress();
    const double spent = own.compute_s() + own.wait_s();
    rows.push_back(
        {worker.name(), grouped(own.clock()),
         takes_part(worker) ? track(progress.iteration, last, own.clock(), bound, width)
                            : std::string(),
         fmt::format("+{}", std::max<std::int64_t>(own.clock() - progress.iteration, 0)),
         worker.state(),
         spent > 0 ? fmt::format("waited {:.0f} %", 100 * own.wait_s() / spent) : std::string()});
  }
  return aligned(rows, {false, true, false, true, false, true});
}

std::string drift_line(const pb::JobStatus& job, const JobProgress& progress) {
  const auto reads = staleness_of(job);
  std::string line = fmt::format("{} apart as last reported", counted(progress.apart, "clock"));
  if (!reads.empty()) line += fmt::format("; reads were at most {} behind", reads.back().first);
  if (job.slack() == Slack::unbounded().clocks()) return line + "; no bound";
  return line + fmt::format("; slack {}", job.slack());
}

}  // namespace

bool has_ended(pb::JobState state) {
  return state == pb::DONE || state == pb::FAILED || state == pb::STOPPED;
}

std::string mode_name(const pb::JobStatus& job) {
  return job.mode() == "SSP" ? fmt::format("SSP, slack {}", job.slack()) : job.mode();
}

JobProgress progress_of(const pb::JobStatus& job) {
  JobProgress sum;
  std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
  std::int64_t fastest = 0;
  int taking_part = 0;
  for (const pb::WorkerStatus& worker : job.workers()) {
    const pb::Progress& own = worker.progress();
    sum.images += own.images();
    if (!takes_part(worker)) continue;
    ++taking_part;
    slowest = std::min(slowest, own.clock());
    fastest = std::max(fastest, own.clock());
    sum.loss += own.loss();
    sum.images_per_second += own.images_per_second();
  }
  if (taking_part == 0) return sum;
  sum.iteration = slowest;
  sum.apart = fastest - slowest;
  sum.loss /= taking_part;
  return sum;
}

std::vector<std::pair<std::int64_t, std::uint64_t>> staleness_of(const pb::JobStatus& job) {
  std::map<std::int64_t, std::uint64_t> reads;
  for (const pb::WorkerStatus& worker : job.workers()) {
    for (const pb::StalenessBin& bin : worker.progress().staleness()) {
      if (bin.reads() > 0) reads[bin.staleness()] += bin.reads();
    }
  }
  return {reads.begin(), reads.end()};
}

std::vector<std::string> progress_block(const pb::JobStatus& job, int width) {
  const JobProgress progress = progress_of(job);
  const double done = share(progress.iteration, job.max_iter());
  std::vector<std::string> lines;
  lines.push_back(fmt::format("job {}  {}  {}  epoch {}  {}", job.job(), job.name(), mode_name(job),
                              job.epoch(), state_word(job.state())));
  lines.push_back(fmt::format("{} {:3.0f} %  iteration {} of {}",
                              bar(done, std::clamp(width - 44, 10, 40)), 100 * done,
                              grouped(progress.iteration), grouped(job.max_iter())));
  std::string figures = fmt::format("loss {:.4f}  {} images/s  {}", progress.loss,
                                    grouped(static_cast<std::int64_t>(progress.images_per_second)),
                                    times(job, progress.iteration));
  if (job.evaluations_size() > 0) {
    const pb::Evaluation& last = job.evaluations(job.evaluations_size() - 1);
    figures += "  accuracy " + accuracy_text(last);
  }
  lines.push_back(std::move(figures));
  for (std::string& line : worker_tracks(job, progress, std::clamp(width - 44, 10, 40))) {
    lines.push_back(std::move(line));
  }
  lines.push_back(drift_line(job, progress));
  return lines;
}

std::string progress_line(const pb::JobStatus& job) {
  const JobProgress progress = progress_of(job);
  std::string clocks;
  for (const pb::WorkerStatus& worker : job.workers()) {
    clocks += fmt::format(" {}{}", worker.progress().clock(), takes_part(worker) ? "" : " (lost)");
  }
  return fmt::format("iteration {} of {} ({:.0f} %)  loss {:.4f}  {:.0f} images/s  clocks{}  {}",
                     progress.iteration, job.max_iter(),
                     100 * share(progress.iteration, job.max_iter()), progress.loss,
                     progress.images_per_second, clocks, times(job, progress.iteration));
}

std::string accuracy_text(const pb::Evaluation& evaluation) {
  return std::isnan(evaluation.accuracy()) ? "-" : fmt::format("{:.4f}", evaluation.accuracy());
}

std::string evaluation_line(const pb::Evaluation& evaluation) {
  return fmt::format("test at iteration {}: accuracy {}, loss {:.4f}", grouped(evaluation.clock()),
                     accuracy_text(evaluation), evaluation.loss());
}

}  // namespace taut::cli
