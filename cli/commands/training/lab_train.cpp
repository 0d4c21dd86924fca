#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/checkpoint_paths.hpp"
#include "cli/commands/shared_options.hpp"
#include "cli/commands/training/lab.hpp"
#include "cli/commands/training/lab_timeline.hpp"
#include "cli/commands/training/run_files.hpp"
#include "cli/playback/playback_json.hpp"
#include "cli/run_folder.hpp"
#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "cli/views/progress_display.hpp"
#include "cli/views/summary_view.hpp"
#include "common/files/file.hpp"
#include "common/log.hpp"
#include "common/system/descriptor_limit.hpp"
#include "common/system/stop_signal.hpp"
#include "lab/training/costs/calibrate.hpp"
#include "lab/training/costs/cluster_misfit.hpp"
#include "lab/training/costs/codec_costs.hpp"
#include "lab/training/training_run.hpp"
#include "proto/config/lab/lab_cluster.hpp"
#include "proto/config/text.hpp"
#include "proto/state_word.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTimelineFile = "timeline.json";

/// What a training in the lab has in addition to one of processes.
struct LabFigures {
  double computed_s = 0;  // of real time
  double mean_staleness = 0;
  double waiting = 0;  // share, of all workers
};

LabFigures figures_of(const lab::TrainingOutcome& outcome, Duration computed) {
  LabFigures figures;
  figures.computed_s = seconds(computed);
  double reads = 0;
  for (const auto& [staleness, number] : staleness_of(outcome.job)) {
    reads += static_cast<double>(number);
    figures.mean_staleness += static_cast<double>(staleness) * static_cast<double>(number);
  }
  if (reads > 0) figures.mean_staleness /= reads;
  double spent_s = 0;
  for (const pb::WorkerStatus& worker : outcome.job.workers()) {
    figures.waiting += worker.progress().wait_s();
    spent_s += worker.progress().wait_s() + worker.progress().compute_s();
  }
  if (spent_s > 0) figures.waiting /= spent_s;
  return figures;
}

/// Which hosts went away: the first few, and how many there were.
std::string losses_text(const std::vector<lab::HostLoss>& losses) {
  constexpr std::size_t kShown = 4;
  if (losses.empty()) return {};
  std::string text =
      fmt::format("hosts lost: {}\n", grouped(static_cast<std::int64_t>(losses.size())));
  for (std::size_t i = 0; i < std::min(kShown, losses.size()); ++i) {
    const lab::HostLoss& loss = losses[i];
    text += fmt::format("  {} at {:.3f} s{}{}\n", loss.host, loss.at_s,
                        loss.had_notice ? ", with notice" : "",
                        loss.back_s ? fmt::format(", back at {:.3f} s", *loss.back_s) : "");
  }
  if (losses.size() > kShown) text += "  and others: lab.hosts_lost in summary.json\n";
  return text;
}

std::string summary_text(const RunSummary& run, const lab::TrainingOutcome& outcome,
                         const LabFigures& figures) {
  std::string text;
  for (const std::string& line : summary_lines(run)) text += line + "\n";
  text += fmt::format(
      "waiting: {:.1f} % of the workers' time, mean staleness {:.3f}\n"
      "virtual time: {:.3f} s, computed in {:.1f} s, {} events\n",
      100 * figures.waiting, figures.mean_staleness, outcome.virtual_s, figures.computed_s,
      grouped(static_cast<std::int64_t>(outcome.events)));
  text += losses_text(outcome.losses);
  const auto busiest = std::ranges::max_element(outcome.links, {}, &lab::LinkUse::busy_share);
  if (busiest != outcome.links.end()) {
    constexpr double kMib = 1UL << 20U;
    text += fmt::format("busiest link: {}, {:.1f} % of the time, {:.1f} MiB in {} messages\n",
                        busiest->name, 100 * busiest->busy_share,
                        static_cast<double>(busiest->bytes) / kMib,
                        grouped(static_cast<std::int64_t>(busiest->messages)));
  }
  return text;
}

nlohmann::ordered_json traffic_json(const lab::Topology::Traffic& traffic) {
  return {{"messages_in", traffic.messages_in},
          {"bytes_in", traffic.bytes_in},
          {"messages_out", traffic.messages_out},
          {"bytes_out", traffic.bytes_out}};
}

/// The summary of a run of processes, with a part about the lab.
std::string lab_json(const RunSummary& run, const lab::TrainingOutcome& outcome,
                     const LabFigures& figures, JsonLayout layout) {
  using Json = nlohmann::ordered_json;
  Json whole = Json::parse(summary_json(run, JsonLayout::kOneLine));
  Json links = Json::array();
  for (const lab::LinkUse& link : outcome.links) {
    links.push_back({{"name", link.name},
                     {"bytes", link.bytes},
                     {"messages", link.messages},
                     {"busy_share", link.busy_share}});
  }
  Json losses = Json::array();
  for (const lab::HostLoss& loss : outcome.losses) {
    losses.push_back({{"host", loss.host},
                      {"at_s", loss.at_s},
                      {"back_s", loss.back_s ? Json(*loss.back_s) : Json()},
                      {"had_notice", loss.had_notice}});
  }
  whole["lab"] = {{"virtual_s", outcome.virtual_s},
                  {"steady_clocks_per_s", outcome.steady_clocks_per_s},
                  {"waiting_share", figures.waiting},
                  {"mean_staleness", figures.mean_staleness},
                  {"events", outcome.events},
                  {"hosts_lost", losses},
                  {"coordinator", traffic_json(outcome.coordinator)},
                  {"servers", traffic_json(outcome.servers)},
                  {"links", links}};
  return layout == JsonLayout::kOneLine ? whole.dump() : whole.dump(2) + "\n";
}

Result<fs::path> prepare_folder(const LabOptions& options, const pb::Job& job,
                                const pb::LabCluster& cluster) {
  TAUT_TRY(const fs::path folder, make_run_folder({.requested = options.train.output,
                                                   .job_name = job.name(),
                                                   .force = options.train.force,
                                                   .keep = job.resume()}));
  TAUT_TRY(write_file_atomically(folder / "job.textproto", to_text(job)));
  TAUT_TRY(write_file_atomically(folder / "cluster.textproto", to_text(cluster)));
  TAUT_TRY(write_origin(job, "lab", folder));
  TAUT_TRY(write_vocabularies(job, folder));
  return folder;
}

/// Shows progress now and then, and checks for signals.
class Watch {
 public:
  Watch(const pb::Job& job, bool quiet) : display_(words_of(job)), quiet_(quiet) {}

  bool operator()(const pb::JobStatus& status) {
    constexpr Duration kBetween{250'000};
    const TimePoint now = steady_now();
    if (!quiet_ && status.workers_size() > 0 && now >= next_) {
      next_ = now + kBetween;
      display_.show(status);
    }
    return stop_signal() == 0;
  }

 private:
  ProgressDisplay display_;
  const bool quiet_;
  TimePoint next_;
};

Result<std::unique_ptr<lab::VirtualTimeline>> open_timeline(const LabOptions& options,
                                                            const pb::Job& job,
                                                            const fs::path& folder) {
  constexpr std::int64_t kSettled = 10;  // clocks after which a training is in its stride
  if (!options.timeline) return std::unique_ptr<lab::VirtualTimeline>();
  lab::VirtualTimeline::Options timeline;
  timeline.file = folder / kTimelineFile;
  timeline.drawn_from = Clock(std::min<std::int64_t>(kSettled, job.solver_param().max_iter() / 2));
  return lab::VirtualTimeline::open(timeline);
}

void print_timeline(const lab::VirtualTimeline& timeline, const fs::path& file) {
  for (const std::string& line : timeline_lines(timeline)) fmt::print("{}\n", line);
  fmt::print("timeline: {}{}\n", file.string(),
             timeline.has_ended() ? ", which ends early: it has reached its limit" : "");
}

/// Errors    invalid: parameters to start from, where there are none
Result<void> check_costs_alone(const LabOptions& options, const pb::Job& job) {
  if (options.learns) return ok();
  constexpr const char* kWhy = "--no-learning computes no parameters; leave one of the two out";
  if (job.has_resume()) {
    return invalid(fmt::format("resume {}: cannot be continued, as {}", job.resume(), kWhy));
  }
  if (!options.train.job.weights.empty()) {
    return invalid(
        fmt::format("--weights {}: has no use, as {}", options.train.job.weights.front(), kWhy));
  }
  return ok();
}

/// Where the lab differs from the job's checkpoint settings; empty if it does not.
std::string checkpoint_note(const LabOptions& options, const pb::Job& job) {
  const bool saves = job.has_checkpoint() || job.solver_param().snapshot() > 0;
  if (!options.learns) {
    return saves ? "the job's checkpoints: --no-learning computes no parameters, so none is written"
                 : "";
  }
  if (job.checkpoint().has_coded()) {
    return "checkpoint.coded: the lab's servers have no disks, so checkpoints are whole files";
  }
  return "";
}

/// The status with its checkpoints' folders as full paths.
pb::JobStatus with_whole_paths(pb::JobStatus job, const fs::path& folder) {
  for (pb::KeptCheckpoint& kept : *job.mutable_checkpoints()) {
    kept.set_folder((folder / kept.folder()).string());
  }
  return job;
}

/// What the lab must train, in no folder yet.
lab::TrainingOptions lab_training(const LabOptions& options, const pb::Job& job,
                                  const pb::LabCluster& cluster) {
  lab::TrainingOptions training;
  training.job = job;
  training.cluster = cluster;
  training.servers = options.train.servers;
  training.shards = options.train.shards;
  training.seed = job.seed();
  training.threads = options.train.threads;
  training.learns = options.learns;
  training.overlap = options.train.overlap;
  training.records = options.train.records;
  training.memory = Bytes(options.memory_limit);
  training.show = [watch = std::make_shared<Watch>(job, options.train.json)](
                      const pb::JobStatus& status) { return (*watch)(status); };
  return training;
}

/// Prints the results, and writes them into the run's folder.
Result<void> report(const LabOptions& options, const pb::Job& job, const fs::path& folder,
                    const lab::TrainingOutcome& outcome, const lab::Playback& playback,
                    const lab::VirtualTimeline* timeline, Duration took) {
  const RunSummary summary{.job = outcome.job,
                           .words = words_of(job),
                           .servers = options.train.servers,
                           .shards = options.train.shards,
                           .wall_s = outcome.virtual_s,
                           .first_iteration_s = outcome.first_iteration_s,
                           .folder = folder.string()};
  const LabFigures figures = figures_of(outcome, took);
  if (options.train.json) {
    fmt::print("{}\n", lab_json(summary, outcome, figures, JsonLayout::kOneLine));
  } else {
    RunSummary shown = summary;
    shown.job = with_whole_paths(outcome.job, absolute_path(folder.string()));
    fmt::print("{}", summary_text(shown, outcome, figures));
    if (timeline != nullptr) print_timeline(*timeline, folder / kTimelineFile);
  }
  TAUT_TRY(write_file_atomically(folder / "summary.json",
                                 lab_json(summary, outcome, figures, JsonLayout::kIndented)));
  return write_file_atomically(
      folder / kPlaybackFile,
      playback_json(summary, outcome, playback, {figures.waiting, figures.mean_staleness}));
}

Result<int> train_in_lab(const LabOptions& options) {
  const TimePoint began = steady_now();
  pb::LabCluster cluster;
  if (!options.cluster.empty()) {
    TAUT_TRY(cluster, read_lab_cluster(options.cluster));
  }
  TAUT_TRY(const pb::Job job, training_job(options.train));
  TAUT_TRY(check_costs_alone(options, job));
  if (options.cluster.empty()) {
    TAUT_TRY(cluster, lab::calibrate(job, options.train.threads, std::nullopt));
  }
  TAUT_TRY(const auto misfit, lab::cluster_misfit(job, cluster, options.train.servers));
  if (misfit) return lab_cluster_error(options.cluster, misfit->steps, misfit->what);
  lab::TrainingOptions training = lab_training(options, job, cluster);
  // A refused job replaces no run, and leaves no folder.
  TAUT_TRY(lab::check_training(training));
  TAUT_TRY(const fs::path folder, prepare_folder(options, job, cluster));
  training.records.set_folder(folder.string());
  training.folder = absolute_path(folder.string());
  if (!options.train.json) {
    fmt::print("{}: {}, {}, in the lab, run folder {}\n", job.name(),
               counted(options.train.servers, "server"), counted(job.workers(), "worker"),
               folder.string());
    std::fflush(stdout);
  }
  if (const auto missing = lab::missing_codecs(job, cluster.costs()); !missing.empty()) {
    fmt::print(
        stderr,
        "warning: costs: no codec {}, so that encoding takes no time; tautline lab calibrate "
        "measures it\n",
        fmt::join(missing, ", "));
  }
  if (const std::string note = checkpoint_note(options, job); !note.empty()) {
    fmt::print(stderr, "warning: {}\n", note);
  }
  TAUT_TRY(log::start({.role = "lab", .name = "lab", .file = (folder / "lab.log").string()}));
  raise_descriptor_limit();
  TAUT_TRY(const auto timeline, open_timeline(options, job, folder));
  training.timeline = timeline.get();
  lab::Playback playback;
  training.playback = &playback;
  TAUT_TRY(const lab::TrainingOutcome outcome, lab::run_training(training));
  log::stop();
  if (timeline) {
    TAUT_TRY(timeline->finish());
  }
  TAUT_TRY(report(options, job, folder, outcome, playback, timeline.get(), steady_now() - began));
  if (outcome.job.state() == pb::DONE) return kFine;
  return make_error(ErrorCode::kClosed, fmt::format("job {}: {}", state_word(outcome.job.state()),
                                                    outcome.job.message()));
}

}  // namespace

int run_lab(const LabOptions& options) {
  watch_stop_signals();
  const auto status = train_in_lab(options);
  if (!status) return fail("lab", status.error().message);
  return status.value();
}

}  // namespace taut::cli
