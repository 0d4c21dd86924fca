#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/draw.hpp"
#include "cli/net_view.hpp"
#include "cli/record_shape.hpp"
#include "cli/sweep/plan.hpp"
#include "cli/sweep/sweep.hpp"
#include "common/file.hpp"
#include "proto/cluster.pb.h"
#include "proto/text.hpp"
#include "worker/model/file_kind.hpp"
#include "worker/model/job.hpp"
#include "worker/model/job_data.hpp"
#include "worker/model/solver.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;
using model::FileKind;

/// What checking a file found: a summary, and warnings.
struct Findings {
  std::vector<std::string> lines;
  std::vector<std::string> warnings;

  void add(std::vector<std::string> more) { lines.insert(lines.end(), more.begin(), more.end()); }
};

/// A net by itself has a test phase too.
std::vector<model::NetChoice> nets_to_show(const pb::Job& job) {
  std::vector<model::NetChoice> nets = model::nets_of(job);
  if (nets.size() == 1) nets.push_back({pb::TEST, 0});
  return nets;
}

Result<void> describe_graphs(const pb::Job& job, Findings& found) {
  const JobRecords known = records_of(job);
  if (!known.unknown.empty()) {
    found.warnings.push_back(
        fmt::format("no data set says how large the records of {} are; the shapes below take "
                    "what the layer says, or a usual size",
                    fmt::join(known.unknown, ", ")));
  }
  for (const model::NetChoice& choice : nets_to_show(job)) {
    TAUT_TRY(const auto graph,
             model::build_graph(model::net_of(job, choice), known.records.graph_options(choice)));
    found.add(net_view(graph));
  }
  return ok();
}

Result<Findings> check_cluster(const fs::path& path) {
  pb::ClusterConfig config;
  TAUT_TRY(read_text(path, config));
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
        "insecure: true: whoever reaches the ports can read and change "
        "everything");
  }
  return found;
}

Result<Findings> check_net(const fs::path& path) {
  pb::Job job;
  TAUT_TRY(read_text(path, *job.mutable_net_param()));
  model::settle_net_paths(path, *job.mutable_net_param());
  Findings found;
  for (const model::NetChoice& choice : nets_to_show(job)) {
    const auto layers = model::data_of(job, choice);
    if (!layers) {
      found.warnings.push_back(layers.error().message);
      continue;
    }
    for (const model::LayerData& layer : layers.value()) {
      const auto missing = model::missing_data(layer.place);
      found.warnings.insert(found.warnings.end(), missing.begin(), missing.end());
    }
  }
  TAUT_TRY(describe_graphs(job, found));
  return found;
}

Result<Findings> check_job_file(const fs::path& path) {
  TAUT_TRY(const pb::Job job, model::load_job(path));
  Findings found;
  TAUT_TRY(found.warnings, model::check_job(job, records_of(job).records));
  const pb::SolverParameter& solver = job.solver_param();
  found.lines.push_back(fmt::format("  job {}: {} for {} iterations, base_lr {:g} ({}), {}",
                                    job.name(), solver.type(), solver.max_iter(), solver.base_lr(),
                                    solver.lr_policy(),
                                    pb::Consistency::Mode_Name(job.consistency().mode())));
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
    found.lines.push_back(fmt::format("  {}, {}, {}", point.bound(), point.group(),
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
    case FileKind::kSolver:
    case FileKind::kJob:
      break;
  }
  return check_job_file(path);
}

/// Prints what a file is worth. Returns whether it can be used.
bool validate(const fs::path& path) {
  const auto kind = model::file_kind(path);
  const auto found = kind ? check(path, kind.value()) : Result<Findings>(kind.error());
  if (!found) {
    fail("validate", found.error().message);
    return false;
  }
  fmt::print("{}: a {} file, fine\n", path.string(), model::to_string(kind.value()));
  for (const std::string& line : found.value().lines) fmt::print("{}\n", line);
  std::fflush(stdout);
  for (const std::string& line : found.value().warnings) {
    fmt::print(stderr, "{}: warning: {}\n", path.string(), line);
  }
  return true;
}

}  // namespace

void add_validate(CLI::App& app, int& status) {
  auto files = std::make_shared<std::vector<std::string>>();
  CLI::App* command = app.add_subcommand(
      "validate", "Checks cluster, job, net, solver and sweep files without running anything");
  command->add_option("FILE", *files, "Files; their kind is told from their fields")->required();
  command->footer("Example: tautline validate configs/jobs/*.textproto");
  command->callback([files, &status] {
    for (const std::string& file : *files) {
      if (!validate(file)) status = kFailed;
    }
  });
}

}  // namespace taut::cli
