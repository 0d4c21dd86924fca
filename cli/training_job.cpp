#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "cli/install_paths.hpp"
#include "cli/record_shape.hpp"
#include "cli/train.hpp"
#include "proto/experiment_check.hpp"
#include "worker/model/job.hpp"
#include "worker/model/job_data.hpp"
#include "worker/model/weights.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kDefaultWorkers = 2;

/// Data sources lie where this process runs, and the workers run there too.
std::string absolute(const std::string& path) {
  std::error_code failed;
  const fs::path whole = fs::absolute(path, failed);
  return failed ? path : whole.lexically_normal().string();
}

Result<void> put_over(const TrainOptions& options, pb::Job& job) {
  if (!options.weights.empty()) job.clear_weights();
  if (options.mode) job.mutable_consistency()->set_mode(*options.mode);
  if (options.slack) {
    // Slack 0 is BSP, and a slack asks for a bound.
    job.mutable_consistency()->set_mode(*options.slack == 0 ? pb::Consistency::BSP
                                                            : pb::Consistency::SSP);
    job.mutable_consistency()->set_slack(*options.slack);
  }
  if (job.consistency().mode() != pb::Consistency::SSP) job.mutable_consistency()->clear_slack();
  if (options.max_iter) job.mutable_solver_param()->set_max_iter(*options.max_iter);
  if (options.seed) {
    job.set_seed(*options.seed);
    job.mutable_solver_param()->clear_random_seed();
  }
  if (options.workers) job.set_workers(*options.workers);
  if (job.workers() == 0) job.set_workers(kDefaultWorkers);
  if (!options.data.empty()) {
    job.clear_data();
    job.add_data()->set_folder(absolute(options.data));
  }
  for (const std::string& text : options.stragglers) {
    TAUT_TRY(*job.add_straggler(), parse_straggler(text, "--straggler"));
  }
  for (const std::string& file : options.weights) job.add_weights(file);
  if (options.clock_time_ms) job.set_clock_time_ms(*options.clock_time_ms);
  return ok();
}

/// Errors    not_found: names what is missing and the way to get it
Result<void> require_data(const pb::Job& job) {
  for (const pb::Phase phase : {pb::TRAIN, pb::TEST}) {
    if (phase == pb::TEST && job.solver_param().test_iter_size() == 0) continue;
    TAUT_TRY(const auto layers, model::data_of(job, phase));
    for (const model::LayerData& layer : layers) {
      const auto missing = model::missing_data(layer.place);
      if (missing.empty()) continue;
      return make_error(ErrorCode::kNotFound,
                        fmt::format("{}: scripts/get_data mnist (or fashion-mnist) fetches a data "
                                    "set, apt-get install dataset-fashion-mnist brings the default "
                                    "one, --data DIR names another folder",
                                    missing.front()));
    }
  }
  return ok();
}

}  // namespace

Result<pb::Job> training_job(const TrainOptions& options) {
  fs::path file = options.job_file;
  if (file.empty()) {
    TAUT_TRY(const fs::path configs, configs_folder());
    file = configs / "jobs" / "fashion_lenet.textproto";
  }
  TAUT_TRY(pb::Job job, model::load_job(file));
  TAUT_TRY(put_over(options, job));
  TAUT_TRY(model::settle_weights(file, file, job));
  TAUT_TRY(require_data(job));
  TAUT_TRY(const auto warnings, model::check_job(job, records_of(job).records));
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
  TAUT_TRY(const std::string weights,
           model::match_job_weights(job, records_of(job).records.graph_options(pb::TRAIN)));
  if (!weights.empty()) fmt::print("weights: {}\n", weights);
  return job;
}

}  // namespace taut::cli
