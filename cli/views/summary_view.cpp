#include "cli/views/summary_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "proto/formats/run_json.hpp"
#include "proto/formats/summary_json.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

constexpr int kBarWidth = 40;

/// The share of its training time that a worker waited for others.
double waiting_share(const pb::Progress& progress) {
  const double spent = progress.compute_s() + progress.wait_s();
  return spent > 0 ? progress.wait_s() / spent : 0;
}

using Json = nlohmann::ordered_json;

/// The mean over the workers that have met; null if none keeps separate parameters.
Json consensus_error_of(const pb::JobStatus& job) {
  double sum = 0;
  int workers = 0;
  for (const pb::WorkerStatus& worker : job.workers()) {
    const bool counts = worker.state() != pb::PROCESS_LOST;
    if (!counts || !worker.progress().has_consensus_error()) continue;
    sum += worker.progress().consensus_error();
    ++workers;
  }
  return workers > 0 ? Json(sum / workers) : Json();
}

void append(std::vector<std::string>& lines, std::vector<std::string> more) {
  for (std::string& line : more) lines.push_back("  " + std::move(line));
}

/// Each worker's share, or for many workers the least, the middle and the largest.
std::string waiting_text(const pb::JobStatus& job) {
  constexpr int kListed = 4;
  std::vector<std::pair<double, std::string>> shares;
  for (const pb::WorkerStatus& worker : job.workers()) {
    shares.emplace_back(100 * waiting_share(worker.progress()), worker.name());
  }
  const auto text = [](const auto& share) {
    return fmt::format("{} {:.1f} %", share.second, share.first);
  };
  if (job.workers_size() > kListed) {
    std::ranges::sort(shares);
    return fmt::format("{:.1f} % in the middle, {} to {}", shares[shares.size() / 2].first,
                       text(shares.front()), text(shares.back()));
  }
  std::string all;
  for (const auto& share : shares) all += (all.empty() ? "" : ", ") + text(share);
  return all;
}

std::vector<Row> table(const RunSummary& run) {
  const pb::JobStatus& job = run.job;
  std::vector<Row> rows{
      {"job", fmt::format("{} (job {}), {}", job.name(), job.job(), state_word(job.state()))},
      {"mode", mode_name(job)},
      {"servers", fmt::format("{}, shards of each: {}", run.servers, run.shards)},
      {"workers", fmt::format("{}", job.workers_size())},
      {"iterations",
       fmt::format("{} of {}", grouped(progress_of(job).iteration), grouped(job.max_iter()))},
      {"wall time", fmt::format("{:.1f} s, the job itself {:.1f} s", run.wall_s, job.running_s())},
      {rate_unit(job), grouped(std::llround(job.rate()))}};
  if (run.first_iteration_s > 0) {
    rows.push_back(
        {"first iteration", fmt::format("{:.2f} s after the start", run.first_iteration_s)});
  }
  rows.push_back({"waiting", waiting_text(job)});
  if (const std::string text = compression_text(job); !text.empty()) {
    rows.push_back({"compression", text});
  }
  if (job.has_compression()) rows.push_back({"AUTO is", job.compression().text()});
  return rows;
}

std::string perplexity_text(const pb::Evaluation& test) {
  return fmt::format("{:.3f}", std::exp(test.loss()));
}

std::vector<std::string> tests(const RunSummary& run) {
  std::vector<Row> rows{{"iteration", "accuracy", "loss"}};
  if (run.words.has_perplexity) rows.front().push_back("perplexity");
  for (const pb::Evaluation& test : run.job.evaluations()) {
    rows.push_back(
        {grouped(test.clock()), accuracy_text(test), fmt::format("{:.4f}", test.loss())});
    if (run.words.has_perplexity) rows.back().push_back(perplexity_text(test));
  }
  return aligned(rows, {true, true, true, true});
}

Json workers_json(const pb::JobStatus& job) {
  Json workers = Json::array();
  for (const pb::WorkerStatus& worker : job.workers()) {
    workers.push_back(
        worker_json(worker.name(), state_word(worker), worker.device(), worker.progress()));
  }
  return workers;
}

}  // namespace

std::vector<std::string> summary_lines(const RunSummary& run) {
  std::vector<std::string> lines{"", "Summary"};
  append(lines, aligned(table(run)));
  const auto reads = staleness_of(run.job);
  if (!reads.empty()) {
    lines.insert(lines.end(), {"",
                               "Staleness of the reads: clock of the read minus the version "
                               "it got, share, number"});
    append(lines, histogram(reads, kBarWidth));
  }
  const int count = run.job.evaluations_size();
  if (count > 0) {
    lines.insert(lines.end(), {"", "Tests"});
    append(lines, tests(run));
  }
  lines.emplace_back();
  if (count > 0) {
    const pb::Evaluation& last = run.job.evaluations(count - 1);
    lines.push_back("test accuracy: " + accuracy_text(last));
    if (run.words.has_perplexity) lines.push_back("test perplexity: " + perplexity_text(last));
  }
  if (!run.job.parameters_sha256().empty()) {
    lines.push_back("parameters sha256: " + run.job.parameters_sha256());
  }
  for (const pb::KeptCheckpoint& kept : run.job.checkpoints()) {
    lines.push_back(fmt::format("checkpoint at {}: {}", grouped(kept.clock()), kept.folder()));
  }
  // The reason for a job's failure is printed separately from its summary.
  const bool has_note = run.job.state() == pb::DONE && !run.job.message().empty();
  if (has_note) lines.push_back("note: " + run.job.message());
  if (!run.job.checkpoint_failure().empty()) lines.push_back(run.job.checkpoint_failure());
  for (const std::string& ending : run.replaced) lines.push_back("started again: " + ending);
  lines.push_back("run folder: " + run.folder);
  return lines;
}

std::string summary_json(const RunSummary& run, JsonLayout layout) {
  const pb::JobStatus& job = run.job;
  const Json whole = {
      {"job", job.name()},
      {"job_id", job.job()},
      {"state", state_word(job.state())},
      {"message", job.message()},
      {"advice", run.advice},
      {"replaced", run.replaced},
      {"mode", job.mode()},
      // Unbounded has no number.
      {"slack", job.mode() == "ASYNC" ? Json() : Json(job.slack())},
      {"compression", job.has_compression() ? choice_json(job.compression()) : Json()},
      {"servers", run.servers},
      {"shards_per_server", run.shards},
      {"iterations", progress_of(job).iteration},
      {"max_iter", job.max_iter()},
      {"wall_s", run.wall_s},
      {"running_s", job.running_s()},
      {"first_iteration_s", run.first_iteration_s},
      {"records", run.words.records},
      {"images_per_second", job.rate() / run.words.items_per_record},
      {"rate", job.rate()},
      {"rate_unit", rate_unit(job)},
      {"workers", workers_json(job)},
      {"consensus_error", consensus_error_of(job)},
      {"staleness", staleness_json(staleness_of(job))},
      {"evaluations", evaluations_json(job.evaluations(), run.words.has_perplexity)},
      {"checkpoints", checkpoints_json(job.checkpoints())},
      {"parameters_sha256", job.parameters_sha256()}};
  return layout == JsonLayout::kOneLine ? whole.dump() : whole.dump(2) + "\n";
}

}  // namespace taut::cli
