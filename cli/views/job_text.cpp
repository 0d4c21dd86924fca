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

// Older clocks are shown as such.
constexpr double kOld_s = 3;

bool takes_part(const pb::WorkerStatus& worker) {
  return worker.state() != pb::PROCESS_LOST;
}

std::string elapsed_text(const pb::JobStatus& job) {
  return "elapsed " + clock_time(job.running_s());
}

/// Empty if unknown.
std::string left_text(const pb::JobStatus& job) {
  return job.left_s() > 0 ? "left " + clock_time(job.left_s()) : std::string();
}

double share(std::int64_t part, std::int64_t whole) {
  return whole <= 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// A worker on the shards' scale; nullptr if the shards do not know it.
const pb::JobClocks::MemberClock* clock_of(const pb::JobStatus& job,
                                           const pb::WorkerStatus& worker) {
  for (const pb::JobClocks::MemberClock& member : job.clocks().members()) {
    if (member.worker() == worker.worker()) return &member;
  }
  return nullptr;
}

/// The share of its time that a worker waits, or has waited since the start; or how long it has
/// been silent, since its figures are as old.
std::string waiting_text(const pb::WorkerStatus& worker, const WaitShares& waits, bool is_recent) {
  if (worker.is_stale() && worker.state() == pb::PROCESS_RUNNING) {
    return fmt::format("silent {:.0f} s", worker.silent_s());
  }
  const auto share = waits.find(worker.name());
  if (share == waits.end()) return {};
  return fmt::format("{} {:.0f} %", is_recent ? "waits" : "waited", 100 * share->second);
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
/// one moment; without a scale if no shard has reported yet.
std::vector<std::string> worker_tracks(const pb::JobStatus& job, int width, bool colours,
                                       const WaitShares* recent) {
  const WaitShares since_start = waits_since_start(job);
  const bool is_recent = recent != nullptr && !recent->empty();
  const WaitShares& shown = is_recent ? *recent : since_start;
  std::vector<WorkerMark> marks;
  const bool bounded = job.slack() != Slack::unbounded().clocks();
  const std::int64_t first = job.clocks().version();
  const std::int64_t bound =
      bounded ? first + job.slack() : std::numeric_limits<std::int64_t>::max();
  std::int64_t last = bounded ? bound : first;
  for (const auto& member : job.clocks().members()) last = std::max(last, member.clock());
  std::vector<Row> rows;
  constexpr int kMinNameWidth = 12;
  const auto name_width = static_cast<std::size_t>(std::max(width / 4, kMinNameWidth));
  const int track_width =
      std::max(width - kBesideTrack - static_cast<int>(widest_name(job, name_width)), 8);
  for (const pb::WorkerStatus& worker : job.workers()) {
    const auto* member = takes_part(worker) ? clock_of(job, worker) : nullptr;
    const std::int64_t clock = member == nullptr ? worker.progress().clock() : member->clock();
    marks.push_back(mark_of(job, worker, recent != nullptr ? *recent : since_start));
    rows.push_back({fit_name(worker.name(), name_width), grouped(clock),
                    member == nullptr ? "" : track(first, last, clock, bound, track_width),
                    member == nullptr ? "" : fmt::format("{:+}", clock - first),
                    state_of(marks.back(), worker), waiting_text(worker, shown, is_recent)});
  }
  std::vector<std::string> lines = aligned(rows, {false, true, false, true, false, true});
  if (!colours) return lines;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    lines[i] = coloured(marks[i], lines[i]);
  }
  return lines;
}

std::string rate_text(const pb::JobStatus& job) {
  return fmt::format("{} {}", grouped(std::llround(job.rate())), rate_unit(job));
}

/// "accuracy 0.9125 at iteration 1,000"; empty before the first test.
std::string newest_test(const pb::JobStatus& job, const JobWords& words, const char* at) {
  if (job.evaluations().empty()) return {};
  const pb::Evaluation& last = job.evaluations(job.evaluations_size() - 1);
  return (words.has_perplexity ? fmt::format("perplexity {:.3f}", std::exp(last.loss()))
                               : "accuracy " + accuracy_text(last)) +
         at + grouped(last.clock());
}

std::string spaced(const std::vector<std::string>& parts) {
  std::string line;
  for (const std::string& part : parts) line += (line.empty() || part.empty() ? "" : "  ") + part;
  return line;
}

std::string loss_text(const JobProgress& progress) {
  return progress.loss ? fmt::format("{:.4f}", *progress.loss) : "-";
}

/// As much as fits: the times are dropped before the accuracy.
std::string figures_line(const pb::JobStatus& job, const JobProgress& progress, int width,
                         const JobWords& words) {
  const std::string loss = "loss " + loss_text(progress);
  const std::string test = newest_test(job, words, " at iteration ");
  const std::vector<std::vector<std::string>> choices = {
      {loss, rate_text(job), elapsed_text(job), left_text(job), test},
      {loss, rate_text(job), left_text(job), test},
      {loss, rate_text(job), test},
      {loss, rate_text(job), newest_test(job, words, " at ")},
      {loss, newest_test(job, words, " at ")}};
  for (const auto& parts : choices) {
    if (std::string line = spaced(parts); std::ssize(line) < width) return line;
  }
  return spaced(choices.back());
}

std::string drift_line(const pb::JobStatus& job, const JobProgress& progress) {
  const auto reads = staleness_of(job);
  std::string line = counted(progress.apart, "clock") + " apart";
  if (job.clocks_age_s() > kOld_s) line += fmt::format(" {:.0f} s ago", job.clocks_age_s());
  if (!reads.empty()) line += fmt::format("; reads were at most {} behind", reads.back().first);
  if (job.slack() == Slack::unbounded().clocks()) return line + "; no bound";
  return line + fmt::format("; slack {}", job.slack());
}

/// ", at most 0.4 s (3 clocks) behind": of the complete backups; empty if unknown.
std::string lag_text(const pb::JobStatus& job) {
  const auto furthest = furthest_behind(job);
  if (!furthest) return {};
  return fmt::format(", at most {:.1f} s ({}) behind", furthest->seconds,
                     counted(furthest->clocks, "clock"));
}

/// The numbers of the shards that are lost with their server: "1, 4"; at most the first eight.
std::string unprotected_text(const pb::JobStatus& job) {
  constexpr int kShown = 8;
  std::string numbers;
  int found = 0;
  for (int number = 0; number < job.shards_size(); ++number) {
    if (job.shards(number).is_protected()) continue;
    if (++found > kShown) return numbers + ", ...";
    numbers += fmt::format("{}{}", found == 1 ? "" : ", ", number);
  }
  return numbers;
}

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

std::string choice_text(const pb::JobStatus& job) {
  if (!job.has_compression()) return {};
  return "compression AUTO is " + job.compression().text();
}

std::string compression_text(const pb::JobStatus& job) {
  std::uint64_t pushed = 0;
  std::uint64_t saved = 0;
  for (const pb::WorkerStatus& worker : job.workers()) {
    pushed += worker.progress().pushed_bytes();
    saved += worker.progress().saved_bytes();
  }
  if (saved == 0) return {};
  return fmt::format("{} of updates in place of {}: {:.1f} % saved by compression",
                     megabytes(pushed), megabytes(pushed + saved),
                     100 * static_cast<double>(saved) / static_cast<double>(pushed + saved));
}

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
  double with_loss = 0;
  double losses = 0;
  for (const pb::WorkerStatus& worker : job.workers()) {
    const pb::Progress& own = worker.progress();
    if (!takes_part(worker)) continue;
    ++taking_part;
    slowest = std::min(slowest, own.clock());
    fastest = std::max(fastest, own.clock());
    if (own.images() == 0) continue;  // no loss yet, at whatever clock it continues
    // In a batch that is divided by speed each worker has its share.
    const double share = own.share() > 0 ? own.share() : 1;
    losses += share * own.loss();
    with_loss += share;
  }
  if (taking_part == 0) return sum;
  sum.iteration = slowest;
  sum.apart = fastest - slowest;
  if (with_loss > 0) sum.loss = losses / with_loss;
  if (job.clocks().members().empty()) return sum;
  // From one shard at one moment, whereas workers report at different ones.
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

/// What is lost with a server, and how far the backups are behind; empty if no shard of the job has
/// a backup, as on one server.
std::string protection_line(const pb::JobStatus& job) {
  const auto& shards = job.shards();
  if (shards.empty()) return {};
  const auto whole = std::ranges::count_if(shards, &pb::ShardStatus::is_protected);
  const auto given_up = std::ranges::find_if(
      shards, [](const pb::ShardStatus& shard) { return !shard.problem().empty(); });
  const std::string problem =
      given_up == shards.end() ? std::string() : fmt::format(" ({})", given_up->problem());
  if (whole == shards.size()) {
    const int backups = fewest_whole_backups(job);
    const int wanted = required_backups(job);
    const std::string count = counted(whole, "shard");
    if (backups < wanted) {
      return fmt::format("{}, with {} of {} backups on other servers{}{}", count, backups, wanted,
                         lag_text(job), problem);
    }
    if (backups == 1) {
      return fmt::format("{}, each with a backup on another server{}", count, lag_text(job));
    }
    return fmt::format("{}, each with {} backups on other servers{}", count, backups,
                       lag_text(job));
  }
  return fmt::format("{} of {} without a whole backup (number {}): a lost server ends the job{}",
                     shards.size() - whole, counted(shards.size(), "shard"), unprotected_text(job),
                     problem);
}

std::string iterations_text(const pb::JobStatus& job) {
  const std::string done = fmt::format("iteration {}", grouped(progress_of(job).iteration));
  return job.max_iter() > 0 ? fmt::format("{} of {}", done, grouped(job.max_iter())) : done;
}

std::vector<std::string> progress_block(const pb::JobStatus& job, int width, const JobWords& words,
                                        bool colours, const WaitShares* recent) {
  const JobProgress progress = progress_of(job);
  const double done = share(progress.iteration, job.max_iter());
  std::vector<std::string> lines;
  lines.push_back(fmt::format("job {}  {}  {}  epoch {}  {}", job.job(), job.name(), mode_name(job),
                              job.epoch(), state_word(job.state())));
  lines.push_back(job.max_iter() > 0
                      ? fmt::format("{} {:3.0f} %  {}", bar(done, std::max(width - 44, 10)),
                                    100 * done, iterations_text(job))
                      : iterations_text(job));
  lines.push_back(figures_line(job, progress, width, words));
  for (std::string& line : worker_tracks(job, width, colours, recent)) {
    lines.push_back(std::move(line));
  }
  if (job.former_workers() > 0) {
    lines.push_back(fmt::format("  {} left earlier", counted(job.former_workers(), "more worker")));
  }
  lines.push_back(drift_line(job, progress));
  if (const std::string line = compression_text(job); !line.empty()) lines.push_back(line);
  if (const std::string line = choice_text(job); !line.empty()) lines.push_back(line);
  if (const std::string line = protection_line(job); !line.empty()) lines.push_back(line);
  return lines;
}

std::string progress_line(const pb::JobStatus& job) {
  const JobProgress progress = progress_of(job);
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = 0;
  int lost = 0;
  for (const pb::WorkerStatus& worker : job.workers()) {
    if (!takes_part(worker)) {
      ++lost;
      continue;
    }
    const auto* member = clock_of(job, worker);
    const std::int64_t clock = member == nullptr ? worker.progress().clock() : member->clock();
    first = std::min(first, clock);
    last = std::max(last, clock);
  }
  return spaced({iterations_text(job), "loss " + loss_text(progress), rate_text(job),
                 fmt::format("apart {}", grouped(std::max<std::int64_t>(0, last - first))),
                 lost > 0 ? fmt::format("lost {}", grouped(lost)) : "", left_text(job)});
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
