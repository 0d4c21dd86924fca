#include "worker/model/job/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/files/file.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/exchange/settle_rows.hpp"
#include "proto/config/experiment_check.hpp"
#include "proto/config/external_job.hpp"
#include "proto/config/job_misfit.hpp"
#include "proto/config/job_state.hpp"
#include "proto/config/job_tables.hpp"
#include "proto/config/settle_balance.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/settle_policies.hpp"
#include "proto/config/text.hpp"
#include "proto/config/text_places.hpp"
#include "worker/model/job/file_kind.hpp"
#include "worker/model/job/job_data.hpp"
#include "worker/model/job/mentioned.hpp"
#include "worker/model/job/solver.hpp"
#include "worker/model/upgrade.hpp"
#include "worker/model/weights.hpp"

namespace taut::model {
namespace {

namespace fs = std::filesystem;

/// The job in a file: a solver file is a job without other fields.
Result<pb::Job> read_job(const fs::path& path) {
  TAUT_TRY(const FileKind kind, file_kind(path));
  pb::Job job;
  if (kind == FileKind::kSolver) {
    TAUT_TRY(read_text(path, *job.mutable_solver_param()));
  } else if (kind == FileKind::kJob) {
    TAUT_TRY(read_text(path, job));
  } else {
    return invalid(fmt::format("{}: describes a {}; a job or a solver file is required here",
                               path.string(), to_string(kind)));
  }
  return job;
}

/// Returns the file that contains the solver.
Result<fs::path> settle_solver(const fs::path& path, pb::Job& job) {
  if (job.has_solver() && job.has_solver_param()) {
    return invalid(
        fmt::format("{}: has both solver and solver_param; give one of them", path.string()));
  }
  if (job.has_solver_param()) return path;
  if (!job.has_solver()) {
    return invalid(fmt::format("{}: has neither solver nor solver_param", path.string()));
  }
  TAUT_TRY(const fs::path found,
           read_mentioned("solver", job.solver(), path, *job.mutable_solver_param()));
  job.clear_solver();
  return found;
}

/// Checks for options that cannot be combined with a net that keeps rows at the servers: the net is
/// known only now.
/// Errors    invalid: "FILE:line:column: what", of the job's file or the solver's
Result<void> check_row_places(const pb::Job& job, const fs::path& path,
                              const fs::path& solver_path) {
  const auto misfit = misfit_of_rows(job);
  if (!misfit) return ok();
  std::vector<PlacedText::Step> steps = misfit->where;
  TAUT_TRY(const FileKind kind, file_kind(path));
  const bool is_solvers = std::string_view(steps.front().field) == "solver_param" &&
                          (solver_path != path || kind == FileKind::kSolver);
  pb::Job whole;
  pb::SolverParameter solver;
  google::protobuf::Message* read = &whole;
  if (is_solvers) {
    steps.erase(steps.begin());
    read = &solver;
  }
  const fs::path& file = is_solvers ? solver_path : path;
  TAUT_TRY(const std::string text, read_file(file));
  PlacedText placed;
  TAUT_TRY(placed.read(text, file.string(), *read));
  return placed.error(steps, misfit->what);
}

bool has_loss(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return std::any_of(node.loss_weights.begin(), node.loss_weights.end(),
                       [](float weight) { return weight != 0; });
  });
}

Result<void> check_graphs(const pb::Job& job, const KnownRecords& records) {
  for (const NetChoice& choice : nets_of(job)) {
    GraphOptions options = records.graph_options(choice);
    // Each worker's batch; the number of workers may be set later.
    const bool is_divided = choice.phase == pb::TRAIN && job.global_batch() && job.workers() > 0;
    if (is_divided) options.batch_divisor = job.workers();
    TAUT_TRY(const Graph graph, build_graph(net_of(job, choice), options));
    if (choice.phase == pb::TRAIN && !has_loss(graph)) {
      return invalid("the net's TRAIN phase has no loss: add a SoftmaxWithLoss layer");
    }
    if (choice.phase == pb::TEST && graph.outputs.empty()) {
      return invalid("the solver has test_iter, but the net's TEST phase has no output");
    }
  }
  return ok();
}

/// One line for each missing data set of the net's training.
std::vector<std::string> data_warnings(const pb::Job& job) {
  std::vector<std::string> warnings;
  for (const NetChoice& choice : nets_of(job)) {
    std::vector<std::string> lines;
    if (const auto data = data_of(job, choice); !data) {
      lines.push_back(data.error().message);
    } else {
      for (const LayerData& layer : data.value()) {
        for (std::string& line : missing_data(layer.place)) lines.push_back(std::move(line));
      }
    }
    for (std::string& line : lines) {
      if (std::ranges::find(warnings, line) == warnings.end()) warnings.push_back(std::move(line));
    }
  }
  return warnings;
}

}  // namespace

Result<pb::Job> load_job(const fs::path& path) {
  TAUT_TRY(pb::Job job, read_job(path));
  TAUT_TRY(const fs::path solver_path, settle_solver(path, job));
  TAUT_TRY(upgrade_solver(*job.mutable_solver_param()));
  settle_exchange(job);
  TAUT_TRY(check_places(job, path));
  if (job.external_members()) {
    TAUT_TRY(check_external_members(job));
  } else {
    TAUT_TRY(settle_nets(path, solver_path, job));
    TAUT_TRY(check_row_places(job, path, solver_path));
    settle_data_paths(path, job);
    TAUT_TRY(settle_weights(path, solver_path, job));
  }
  if (!job.has_name()) job.set_name(path.stem().string());
  if (!job.has_seed() && job.solver_param().random_seed() >= 0) {
    job.set_seed(static_cast<std::uint64_t>(job.solver_param().random_seed()));
  }
  return job;
}

GraphOptions KnownRecords::graph_options(const NetChoice& choice) const {
  GraphOptions options;
  options.phase = choice.phase;
  options.record = otherwise;
  const auto test = static_cast<std::size_t>(choice.test);
  if (choice.phase == pb::TRAIN) {
    options.records = train;
  } else if (test < tests.size()) {
    options.records = tests[test];
  }
  return options;
}

Result<std::vector<std::string>> check_job(const pb::Job& job, const KnownRecords& records) {
  if (job.external_members()) return check_job_itself(job);
  TAUT_TRY(check_solver(job.solver_param()));
  TAUT_TRY(check_graphs(job, records));
  return check_job_itself(job);
}

namespace {

/// The same rule as the coordinator's: only SSP has a slack, and slack 0 is BSP.
Result<void> check_mode(const pb::Consistency& consistency) {
  const bool is_bsp = consistency.mode() == pb::Consistency::BSP && consistency.slack() == 0;
  if (!consistency.has_slack() || consistency.mode() == pb::Consistency::SSP || is_bsp) return ok();
  return invalid(
      fmt::format("consistency: mode {} has no slack, but slack is {}; omit it, or choose "
                  "mode: SSP",
                  pb::Consistency::Mode_Name(consistency.mode()), consistency.slack()));
}

}  // namespace

Result<std::vector<std::string>> check_job_itself(const pb::Job& job) {
  TAUT_TRY(check_external_members(job));
  std::vector<std::string> warnings;
  if (!job.external_members()) {
    TAUT_TRY(warnings, check_solver(job.solver_param()));
  }
  TAUT_TRY(check_experiment(job));
  TAUT_TRY(check_mode(job.consistency()));
  if (const auto misfit = misfit_of_exchange(job)) return invalid(misfit->what);
  TAUT_TRY(to_policies(job));
  TAUT_TRY(to_compression(job));
  TAUT_TRY(check_balance(job));
  TAUT_TRY(to_tables(job));
  TAUT_TRY(check_checkpoints(job));
  TAUT_TRY(to_update_rule(job));
  if (const auto misfit = misfit_of_rows(job)) return invalid(misfit->what);
  for (std::string& line : net_warnings(job.net_param())) warnings.push_back(std::move(line));
  for (std::string& line : data_warnings(job)) warnings.push_back(std::move(line));
  if (job.has_seed() && job.solver_param().random_seed() >= 0 &&
      job.seed() != static_cast<std::uint64_t>(job.solver_param().random_seed())) {
    warnings.push_back(fmt::format("random_seed {}: superseded by the job's seed {}",
                                   job.solver_param().random_seed(), job.seed()));
  }
  return warnings;
}

}  // namespace taut::model
