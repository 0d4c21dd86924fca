#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/shared_options.hpp"
#include "cli/job_records.hpp"
#include "cli/sweep/sweep.hpp"
#include "cli/sweep/sweep_plan.hpp"
#include "cli/views/draw.hpp"
#include "cli/views/net_view.hpp"
#include "common/files/file.hpp"
#include "proto/cluster.pb.h"
#include "proto/config/cluster_config.hpp"
#include "proto/config/lab/lab_cluster.hpp"
#include "proto/config/text.hpp"
#include "worker/model/job/file_kind.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/job/job_data.hpp"
#include "worker/model/layer_place.hpp"
#include "worker/model/phase.hpp"
#include "worker/model/weights.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;
using model::FileKind;

/// The result of checking a file: a summary, warnings, and what a training would not find.
struct Findings {
  std::vector<std::string> lines;
  std::vector<std::string> warnings;
  std::vector<std::string> missing;

  void add(std::vector<std::string> more) { lines.insert(lines.end(), more.begin(), more.end()); }
};

/// A net on its own has a test phase too.
std::vector<model::NetChoice> nets_to_show(const pb::Job& job) {
  std::vector<model::NetChoice> nets = model::nets_of(job);
  if (nets.size() == 1) nets.emplace_back(pb::TEST, 0);
  return nets;
}

bool has_test_graph(const pb::Job& job) {
  return model::build_graph(model::net_of(job, pb::TEST),
                            records_of(job).records.graph_options(pb::TEST))
      .has_value();
}

/// Gives a net file the stage without which its TEST phase cannot be built, as a solver's
/// test_state would, and warns about it. Does nothing if it needs none, or if none helps.
void settle_stage(pb::Job& job, Findings& found) {
  if (has_test_graph(job)) return;
  const std::vector<std::string> stages = model::stages_of(job.net_param());
  for (const std::string& stage : stages) {
    pb::Job staged = job;
    staged.mutable_solver_param()->add_test_state()->add_stage(stage);
    if (!has_test_graph(staged)) continue;
    found.warnings.push_back(fmt::format(
        "the TEST phase needs a stage, which a solver gives: test_state {{ stage: \"{}\" }}, with "
        "which it is shown{}",
        stage,
        stages.size() > 1 ? fmt::format("; the net's stages are {}", fmt::join(stages, ", "))
                          : ""));
    job = std::move(staged);
    return;
  }
}

Result<void> describe_graphs(const pb::Job& job, Findings& found) {
  const JobRecords known = records_of(job);
  if (!known.unknown.empty()) {
    found.warnings.push_back(
        fmt::format("the records of {} have an unknown size; the shapes below assume "
                    "what the layer says, or a common size",
                    fmt::join(known.unknown, ", ")));
  }
  for (const model::NetChoice& choice : nets_to_show(job)) {
    TAUT_TRY(const auto graph,
             model::build_graph(model::net_of(job, choice), known.records.graph_options(choice)));
    found.add(net_view(graph));
  }
  return ok();
}

/// Errors    invalid: an address at which a daemon with this file would not serve HTTP
Result<void> check_http(const fs::path& path, const pb::ClusterConfig& config) {
  for (const auto& [field, address] : http_addresses(config)) {
    const auto allowed = check_http_address(address, config);
    if (allowed) continue;
    return invalid(fmt::format("{}: {}: {}", path.string(), field, allowed.error().message));
  }
  return ok();
}

Result<Findings> check_cluster(const fs::path& path) {
  TAUT_TRY(const pb::ClusterConfig config, load_cluster_config(path));
  TAUT_TRY(check_http(path, config));
  Findings found;
  found.lines.push_back("  coordinator at " + config.coordinator_address());
  if (config.has_server()) {
    found.lines.push_back(
        fmt::format("  server {}: {} on {}{}", config.server().name(),
                    counted(config.server().shards(), "shard"), config.server().listen(),
                    config.server().has_coordinator() ? ", hosts the coordinator" : ""));
  }
  if (config.has_worker()) {
    found.lines.push_back(fmt::format("  worker {}: device {}, {}", config.worker().name(),
                                      pb::WorkerConfig::Device_Name(config.worker().device()),
                                      counted(config.worker().threads(), "thread")));
  }
  if (!config.has_server() && !config.has_worker()) {
    found.warnings.emplace_back("has neither a server nor a worker section");
  }
  if (config.insecure()) {
    found.warnings.emplace_back(
        "insecure: true: no keys are required; every process that reaches the ports can read and "
        "change everything");
  }
  return found;
}

/// How many processes a lab's cluster has places for, host by host, and its links' capacity.
Result<Findings> check_lab_cluster(const fs::path& path) {
  TAUT_TRY(const pb::LabCluster cluster, read_lab_cluster(path));
  Findings found;
  std::int64_t workers = 0;
  std::int64_t servers = 0;
  for (const pb::LabHost& host : cluster.host()) {
    workers += std::int64_t{host.count()} * host.workers();
    servers += std::int64_t{host.count()} * host.servers();
    std::string line =
        fmt::format("  {} {}: {} each, places for {} and {}", counted(host.count(), "host"),
                    host.name(), counted(host.cores(), "core"), counted(host.workers(), "worker"),
                    counted(host.servers(), "server"));
    if (host.has_memory_gib()) line += fmt::format(", {:g} GiB", host.memory_gib());
    if (host.devices() > 0) line += ", " + counted(host.devices(), "device");
    if (host.has_link()) line += ", link " + host.link();
    if (!host.rack().empty()) line += ", rack " + host.rack();
    found.lines.push_back(std::move(line));
  }
  for (const pb::LabLink& link : cluster.link()) {
    found.lines.push_back(fmt::format("  link {}: {:g} Gbit/s, {:g} us", link.name(),
                                      link.gbit_per_s(), link.latency_us()));
  }
  found.lines.push_back(fmt::format("  at most {} and {}, {}", counted(workers, "worker"),
                                    counted(servers, "server"),
                                    counted(cluster.outage_size(), "outage")));
  const pb::LabCompute& compute = cluster.compute();
  if (compute.layer_size() == 0 && !compute.has_clock_ms() && compute.time_ms_size() == 0) {
    found.warnings.emplace_back(
        "compute has neither layer nor clock_ms nor times: no job can run on it; "
        "tautline lab calibrate JOB measures this machine");
  }
  return found;
}

Result<Findings> check_net(const fs::path& path) {
  pb::Job job;
  TAUT_TRY(read_text(path, *job.mutable_net_param()));
  model::settle_net_paths(path, *job.mutable_net_param());
  Findings found;
  settle_stage(job, found);
  for (const model::NetChoice& choice : nets_to_show(job)) {
    const auto layers = model::data_of(job, choice);
    if (!layers) {
      found.warnings.push_back(layers.error().message);
      continue;
    }
    for (const model::LayerData& layer : layers.value()) {
      for (std::string& line : model::missing_data(layer.place)) {
        // Both phases may read the same data.
        if (std::ranges::find(found.missing, line) == found.missing.end()) {
          found.missing.push_back(std::move(line));
        }
      }
    }
  }
  TAUT_TRY(describe_graphs(job, found));
  return found;
}

/// "BSP", "SSP, slack 3", "ASYNC".
std::string mode_text(const pb::Consistency& consistency) {
  std::string mode = pb::Consistency::Mode_Name(consistency.mode());
  if (consistency.mode() != pb::Consistency::SSP) return mode;
  return fmt::format("{}, slack {}", mode, consistency.slack());
}

/// One line for each file or folder of data that does not exist.
Result<std::vector<std::string>> missing_files(const pb::Job& job) {
  std::vector<std::string> lines;
  for (const model::NetChoice& choice : model::nets_of(job)) {
    const auto layers = model::data_of(job, choice);
    if (!layers) continue;  // check_job warns of it
    for (const model::LayerData& layer : layers.value()) {
      for (std::string& line : model::missing_data(layer.place)) {
        if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
      }
    }
  }
  return lines;
}

Result<Findings> check_job_file(const fs::path& path) {
  TAUT_TRY(const pb::Job job, model::load_job(path));
  Findings found;
  const JobRecords known = records_of(job);
  TAUT_TRY(found.warnings, model::check_job(job, known.records));
  TAUT_TRY(found.missing, missing_files(job));
  std::erase_if(found.warnings, [&](const std::string& line) {
    return std::ranges::find(found.missing, line) != found.missing.end();
  });
  if (found.missing.empty() && known.unknown.empty()) {
    TAUT_TRY(model::match_job_weights(job, known.records.graph_options(pb::TRAIN)));
  }
  const pb::SolverParameter& solver = job.solver_param();
  found.lines.push_back(fmt::format("  job {}: {} for {} iterations, base_lr {:g} ({}), {}",
                                    job.name(), solver.type(), solver.max_iter(), solver.base_lr(),
                                    solver.lr_policy(), mode_text(job.consistency())));
  TAUT_TRY(describe_graphs(job, found));
  return found;
}

Result<Findings> check_sweep(const fs::path& path) {
  TAUT_TRY(const SweepOptions options, load_sweep(path.string()));
  if (options.job_file.empty()) return invalid(fmt::format("{}: names no job", path.string()));
  TAUT_TRY(const pb::Job base, model::load_job(options.job_file));
  TAUT_TRY(const SweepPlan plan, plan_sweep(options.sweep, base));
  Findings found;
  for (const SweepPoint& point : plan.points) {
    found.lines.push_back(fmt::format("  {}, {}, {}", point.name(), point.group(),
                                      counted(options.sweep.seeds(), "seed")));
  }
  return found;
}

Result<Findings> check(const fs::path& path, FileKind kind) {
  switch (kind) {
    case FileKind::kCluster:
      return check_cluster(path);
    case FileKind::kNet:
      return check_net(path);
    case FileKind::kSweep:
      return check_sweep(path);
    case FileKind::kLabCluster:
      return check_lab_cluster(path);
    case FileKind::kSolver:
    case FileKind::kJob:
      break;
  }
  return check_job_file(path);
}

struct ValidateOptions {
  std::vector<std::string> files;
  bool strict = false;
  bool json = false;
};

void print_json(const std::string& file, const std::string& kind, const Findings& found,
                const std::string& error) {
  using Json = nlohmann::ordered_json;
  const Json result{{"file", file},
                    {"kind", kind.empty() ? Json() : Json(kind)},
                    {"fine", error.empty()},
                    {"error", error.empty() ? Json() : Json(error)},
                    {"warnings", found.warnings}};
  fmt::print("{}\n", result.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void print_text(const std::string& file, const std::string& kind, const Findings& found,
                const std::string& error) {
  if (error.empty()) {
    fmt::print("{}: a {} file, fine\n", file, kind);
    for (const std::string& line : found.lines) fmt::print("{}\n", line);
  } else {
    fail("validate", error);
  }
  std::fflush(stdout);
  for (const std::string& line : found.warnings) {
    fmt::print(stderr, "{}: warning: {}\n", file, line);
  }
}

/// Prints whether a file can be used, and returns it.
bool validate(const std::string& file, const ValidateOptions& options) {
  const auto kind = model::file_kind(fs::path(file));
  auto checked = kind ? check(file, kind.value()) : Result<Findings>(kind.error());
  Findings found;
  std::string error;
  if (checked) {
    found = std::move(checked.value());
  } else {
    error = model::with_file_place(file, checked.error().message);
  }
  if (options.strict && !found.missing.empty()) {
    error = fmt::format("{}: {}", file, found.missing.front());
  } else {
    found.warnings.insert(found.warnings.end(), found.missing.begin(), found.missing.end());
  }
  const std::string kind_name = kind ? model::to_string(kind.value()) : std::string();
  (options.json ? print_json : print_text)(file, kind_name, found, error);
  return error.empty();
}

}  // namespace

void add_validate(Command& command, int& status) {
  auto options = std::make_shared<ValidateOptions>();
  command.texts("FILE", options->files, "Files; their kind is recognized by their fields")
      .required()
      .value("FILE");
  command.flag("--strict", options->strict, "Refuses a job or net whose data does not exist");
  command.flag("--json", options->json, "Prints one JSON object on a line for each file");
  command.on_run([options, &status] {
    for (const std::string& file : options->files) {
      if (!validate(file, *options)) status = kFailed;
    }
  });
}

}  // namespace taut::cli
