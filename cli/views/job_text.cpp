#include "cli/views/job_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "cli/views/draw.hpp"
#include "common/types.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

bool takes_part(const pb::WorkerStatus& worker) {
  return worker.state() != pb::PROCESS_LOST;
}

/// The time since the job started, and the time left at the mean rate so far.
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

/// Each worker's clock on a scale from the slowest one's to the bound.
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
         state_word(worker.state()),
         spent > 0 ? fmt::format("waited {:.0f} %", 100 * own.wait_s() / spent) : std::string()});
  }
  return aligned(rows, {false, true, false, true, false, true});
}

std::string loss_text(const JobProgress& progress) {
  return progress.loss ? fmt::format("{:.4f}", *progress.loss) : "-";
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
  int with_loss = 0;
  double losses = 0;
  for (const pb::WorkerStatus& worker : job.workers()) {
    const pb::Progress& own = worker.progress();
    if (!takes_part(worker)) continue;
    ++taking_part;
    slowest = std::min(slowest, own.clock());
    fastest = std::max(fastest, own.clock());
    sum.records_per_second += own.images_per_second();
    if (own.clock() == 0) continue;  // no loss yet
    losses += own.loss();
    ++with_loss;
  }
  if (taking_part == 0) return sum;
  sum.iteration = slowest;
  sum.apart = fastest - slowest;
  if (with_loss > 0) sum.loss = losses / with_loss;
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

std::vector<std::string> progress_block(const pb::JobStatus& job, int width,
                                        const JobWords& words) {
  const JobProgress progress = progress_of(job);
  const double done = share(progress.iteration, job.max_iter());
  std::vector<std::string> lines;
  lines.push_back(fmt::format("job {}  {}  {}  epoch {}  {}", job.job(), job.name(), mode_name(job),
                              job.epoch(), state_word(job.state())));
  lines.push_back(fmt::format("{} {:3.0f} %  iteration {} of {}",
                              bar(done, std::clamp(width - 44, 10, 40)), 100 * done,
                              grouped(progress.iteration), grouped(job.max_iter())));
  std::string figures = fmt::format("loss {}  {} {}  {}", loss_text(progress),
                                    grouped(static_cast<std::int64_t>(progress.records_per_second)),
                                    words.rate(), times(job, progress.iteration));
  if (job.evaluations_size() > 0) {
    const pb::Evaluation& last = job.evaluations(job.evaluations_size() - 1);
    figures += words.has_perplexity ? fmt::format("  perplexity {:.3f}", std::exp(last.loss()))
                                    : "  accuracy " + accuracy_text(last);
  }
  lines.push_back(std::move(figures));
  for (std::string& line : worker_tracks(job, progress, std::clamp(width - 44, 10, 40))) {
    lines.push_back(std::move(line));
  }
  lines.push_back(drift_line(job, progress));
  return lines;
}

std::string progress_line(const pb::JobStatus& job, const JobWords& words) {
  const JobProgress progress = progress_of(job);
  std::string clocks;
  for (const pb::WorkerStatus& worker : job.workers()) {
    clocks += fmt::format(" {}{}", worker.progress().clock(), takes_part(worker) ? "" : " (lost)");
  }
  return fmt::format(
      "iteration {} of {} ({:.0f} %)  loss {}  {:.0f} {}  clocks{}  {}", progress.iteration,
      job.max_iter(), 100 * share(progress.iteration, job.max_iter()), loss_text(progress),
      progress.records_per_second, words.rate(), clocks, times(job, progress.iteration));
}

std::string accuracy_text(const pb::Evaluation& evaluation) {
  return std::isnan(evaluation.accuracy()) ? "-" : fmt::format("{:.4f}", evaluation.accuracy());
}

std::string evaluation_line(const pb::Evaluation& evaluation, const JobWords& words) {
  std::string line = fmt::format("test at iteration {}: ", grouped(evaluation.clock()));
  if (!std::isnan(evaluation.accuracy())) {
    line += fmt::format("accuracy {}, ", accuracy_text(evaluation));
  }
  line += fmt::format("loss {:.4f}", evaluation.loss());
  if (words.has_perplexity) {
    line += fmt::format(", perplexity {:.3f}", std::exp(evaluation.loss()));
  }
  return line;
}

}  // namespace taut::cli
