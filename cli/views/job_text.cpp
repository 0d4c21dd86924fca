#include "cli/views/job_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "cli/views/draw.hpp"
#include "cli/views/worker_marks.hpp"
#include "common/types.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

// Clocks that are older say so.
constexpr double kOld_s = 3;

bool takes_part(const pb::WorkerStatus& worker) {
  return worker.state() != pb::PROCESS_LOST;
}

/// The time since the job started, and the time left.
std::string times(const pb::JobStatus& job) {
  std::string text = fmt::format("elapsed {}", clock_time(job.running_s()));
  if (job.left_s() > 0) text += fmt::format("  left {}", clock_time(job.left_s()));
  return text;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole <= 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Of a worker on the shards' scale; nullptr: the shards do not know it.
const pb::JobClocks::MemberClock* clock_of(const pb::JobStatus& job,
                                           const pb::WorkerStatus& worker) {
  for (const pb::JobClocks::MemberClock& member : job.clocks().members()) {
    if (member.worker() == worker.worker()) return &member;
  }
  return nullptr;
}

/// What a worker waited so far; or how long it has been silent, since its figures are as old.
std::string waiting_text(const pb::WorkerStatus& worker) {
  if (worker.is_stale() && worker.state() == pb::PROCESS_RUNNING) {
    return fmt::format("silent {:.0f} s", worker.silent_s());
  }
  const pb::Progress& own = worker.progress();
  const double spent = own.compute_s() + own.wait_s();
  return spent > 0 ? fmt::format("waited {:.0f} %", 100 * own.wait_s() / spent) : std::string();
}

/// Columns of a worker's line without its name and its track: a clock of nine, "+12",
/// "< straggler", "waited 100 %", and two between each.
constexpr int kBesideTrack = 9 + 3 + 11 + 12 + 5 * 2;

std::size_t widest_name(const pb::JobStatus& job, std::size_t limit) {
  std::size_t widest = 0;
  for (const pb::WorkerStatus& worker : job.workers()) {
    widest = std::max(widest, std::min(worker.name().size(), limit));
  }
  return widest;
}

/// Each worker's clock on a scale from the slowest one's to the bound, as one shard sees them at
/// one moment; without a scale where no shard has said so yet.
std::vector<std::string> worker_tracks(const pb::JobStatus& job, int width, bool colours) {
  const bool bounded = job.slack() != Slack::unbounded().clocks();
  const std::int64_t first = job.clocks().version();
  const std::int64_t bound =
      bounded ? first + job.slack() : std::numeric_limits<std::int64_t>::max();
  std::int64_t last = bounded ? bound : first;
  for (const auto& member : job.clocks().members()) last = std::max(last, member.clock());
  std::vector<Row> rows;
  constexpr int kSmallestName = 12;
  const auto name_width = static_cast<std::size_t>(std::max(width / 4, kSmallestName));
  const int track_width =
      std::max(width - kBesideTrack - static_cast<int>(widest_name(job, name_width)), 8);
  for (const pb::WorkerStatus& worker : job.workers()) {
    const auto* member = takes_part(worker) ? clock_of(job, worker) : nullptr;
    const std::int64_t clock = member == nullptr ? worker.progress().clock() : member->clock();
    rows.push_back({fit_name(worker.name(), name_width), grouped(clock),
                    member == nullptr ? "" : track(first, last, clock, bound, track_width),
                    member == nullptr ? "" : fmt::format("{:+}", clock - first),
                    state_of(job, worker), waiting_text(worker)});
  }
  std::vector<std::string> lines = aligned(rows, {false, true, false, true, false, true});
  if (!colours) return lines;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i] = coloured(mark_of(job, job.workers(static_cast<int>(i))), lines[i]);
  }
  return lines;
}

std::string loss_text(const JobProgress& progress) {
  return progress.loss ? fmt::format("{:.4f}", *progress.loss) : "-";
}

std::string drift_line(const pb::JobStatus& job, const JobProgress& progress) {
  const auto reads = staleness_of(job);
  std::string line = counted(progress.apart, "clock") + " apart";
  if (job.clocks_age_s() > kOld_s) line += fmt::format(" {:.0f} s ago", job.clocks_age_s());
  if (!reads.empty()) line += fmt::format("; reads were at most {} behind", reads.back().first);
  if (job.slack() == Slack::unbounded().clocks()) return line + "; no bound";
  return line + fmt::format("; slack {}", job.slack());
}

}  // namespace

std::string rate_unit(const pb::JobStatus& job) {
  return job.rate_unit().empty() ? JobWords().rate() : job.rate_unit();
}

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
    if (own.images() == 0) continue;  // no loss yet, at whatever clock it continues
    losses += own.loss();
    ++with_loss;
  }
  if (taking_part == 0) return sum;
  sum.iteration = slowest;
  sum.apart = fastest - slowest;
  if (with_loss > 0) sum.loss = losses / with_loss;
  if (job.clocks().members().empty()) return sum;
  // From one shard at one moment, where workers report at different ones.
  sum.iteration = job.clocks().version();
  sum.apart = 0;
  for (const auto& member : job.clocks().members()) {
    sum.apart = std::max(sum.apart, member.clock() - sum.iteration);
  }
  return sum;
}

std::vector<std::pair<std::int64_t, std::uint64_t>> staleness_of(const pb::JobStatus& job) {
  std::map<std::int64_t, std::uint64_t> reads;
  const auto add = [&reads](const auto& bins) {
    for (const pb::StalenessBin& bin : bins) {
      if (bin.reads() > 0) reads[bin.staleness()] += bin.reads();
    }
  };
  add(job.former_staleness());
  for (const pb::WorkerStatus& worker : job.workers()) add(worker.progress().staleness());
  return {reads.begin(), reads.end()};
}

std::vector<std::string> progress_block(const pb::JobStatus& job, int width, const JobWords& words,
                                        bool colours) {
  const JobProgress progress = progress_of(job);
  const double done = share(progress.iteration, job.max_iter());
  std::vector<std::string> lines;
  lines.push_back(fmt::format("job {}  {}  {}  epoch {}  {}", job.job(), job.name(), mode_name(job),
                              job.epoch(), state_word(job.state())));
  lines.push_back(fmt::format("{} {:3.0f} %  iteration {} of {}",
                              bar(done, std::max(width - 44, 10)), 100 * done,
                              grouped(progress.iteration), grouped(job.max_iter())));
  std::string figures = fmt::format("loss {}  {} {}  {}", loss_text(progress),
                                    grouped(std::llround(job.rate())), rate_unit(job), times(job));
  if (job.evaluations_size() > 0) {
    const pb::Evaluation& last = job.evaluations(job.evaluations_size() - 1);
    figures += words.has_perplexity ? fmt::format("  perplexity {:.3f}", std::exp(last.loss()))
                                    : "  accuracy " + accuracy_text(last);
    figures += fmt::format(" at iteration {}", grouped(last.clock()));
  }
  lines.push_back(std::move(figures));
  for (std::string& line : worker_tracks(job, width, colours)) {
    lines.push_back(std::move(line));
  }
  if (job.former_workers() > 0) {
    lines.push_back(fmt::format("  {} left earlier", counted(job.former_workers(), "more worker")));
  }
  lines.push_back(drift_line(job, progress));
  return lines;
}

std::string progress_line(const pb::JobStatus& job) {
  const JobProgress progress = progress_of(job);
  std::string clocks;
  for (const pb::WorkerStatus& worker : job.workers()) {
    const auto* member = takes_part(worker) ? clock_of(job, worker) : nullptr;
    clocks += fmt::format(" {}{}", member == nullptr ? worker.progress().clock() : member->clock(),
                          takes_part(worker) ? "" : " (lost)");
  }
  return fmt::format("iteration {} of {} ({:.0f} %)  loss {}  {:.0f} {}  clocks{}  {}",
                     progress.iteration, job.max_iter(),
                     100 * share(progress.iteration, job.max_iter()), loss_text(progress),
                     job.rate(), rate_unit(job), clocks, times(job));
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
