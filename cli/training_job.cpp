#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>

#include "cli/checkpoint_paths.hpp"
#include "cli/commands/job_arguments.hpp"
#include "cli/commands/training/train.hpp"
#include "cli/converted_weights.hpp"
#include "cli/install_paths.hpp"
#include "cli/job_records.hpp"
#include "worker/model/job/job.hpp"
#include "worker/model/job/job_data.hpp"
#include "worker/model/layer_place.hpp"
#include "worker/model/weights.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kDefaultWorkers = 2;

/// The options with their folders as every process sees them: all run on this machine.
JobOptions on_this_machine(JobOptions options) {
  if (!options.data.empty()) options.data = absolute_path(options.data);
  if (!options.resume.empty()) options.resume = absolute_path(options.resume);
  return options;
}

/// Errors    not_found: names what is missing and how to get it
Result<void> require_data(const pb::Job& job) {
  for (const model::NetChoice& choice : model::nets_of(job)) {
    TAUT_TRY(const auto layers, model::data_of(job, choice));
    for (const model::LayerData& layer : layers) {
      const auto missing = model::missing_data(layer.place);
      if (missing.empty()) continue;
      return make_error(ErrorCode::kNotFound,
                        fmt::format("{}: scripts/get_data mnist (or fashion-mnist) fetches a data "
                                    "set, apt-get install dataset-fashion-mnist installs the "
                                    "default one, --data DIR names another folder",
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
  if (job.external_members()) {
    return invalid(fmt::format(
        "{}: its members are external programs, so no command can train it; \"tautline "
        "submit {}\" has a cluster wait for them (for a sweep, submit one job for each setting)",
        file.string(), file.string()));
  }
  const JobOptions typed = on_this_machine(options.job);
  pb::Job given = job;
  put_over(typed, job);
  if (job.workers() == 0) job.set_workers(kDefaultWorkers);
  TAUT_TRY(model::settle_weights(file, file, job));
  TAUT_TRY(require_data(job));
  const auto warnings = model::check_job(job, records_of(job).records);
  if (!warnings) {
    if (given.workers() == 0) given.set_workers(kDefaultWorkers);
    blame_options(typed, std::move(given), warnings.error().message, [](const pb::Job& one) {
      return model::check_job(one, records_of(one).records).has_value();
    });
    return make_error(warnings.error().code,
                      model::with_file_place(file, warnings.error().message));
  }
  for (const std::string& warning : warnings.value()) fmt::print(stderr, "warning: {}\n", warning);
  TAUT_TRY(const auto doubts, check_resume(job));
  for (const std::string& doubt : doubts) fmt::print(stderr, "warning: {}\n", doubt);
  const model::GraphOptions trained = records_of(job).records.graph_options(pb::TRAIN);
  TAUT_TRY(const auto converted, convert_state_dicts(job, trained));
  for (const std::string& line : converted) {
    if (!options.json) fmt::print("weights: {}\n", line);
  }
  TAUT_TRY(const std::string weights, model::match_job_weights(job, trained));
  if (!weights.empty() && !options.json) fmt::print("weights: {}\n", weights);
  return job;
}

}  // namespace taut::cli
