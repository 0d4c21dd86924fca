#include "cli/checkpoint_paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "proto/config/external_job.hpp"
#include "proto/formats/checkpoint_reader.hpp"

namespace taut::cli {

namespace fs = std::filesystem;

std::string absolute_path(const std::string& path) {
  std::error_code failed;
  const fs::path whole = fs::absolute(path, failed);
  return failed ? path : whole.lexically_normal().string();
}

void settle_checkpoint_paths(const fs::path& otherwise, pb::Job& job) {
  pb::SolverParameter& solver = *job.mutable_solver_param();
  if (!job.checkpoint().folder().empty()) {
    job.mutable_checkpoint()->set_folder(absolute_path(job.checkpoint().folder()));
  } else if (!solver.snapshot_prefix().empty()) {
    const bool is_folder = solver.snapshot_prefix().back() == '/';
    const std::string prefix = absolute_path(solver.snapshot_prefix());
    solver.set_snapshot_prefix(is_folder && prefix.back() != '/' ? prefix + '/' : prefix);
  } else {
    // A prefix alone orders no checkpoint; checkpoints that the user orders use it too.
    std::string name = job.name().empty() ? "job" : job.name();
    std::ranges::replace(name, '/', '_');
    solver.set_snapshot_prefix(absolute_path((otherwise / name).string()));
  }
  if (job.has_resume()) job.set_resume(absolute_path(job.resume()));
}

void settle_last_checkpoint(pb::Job& job) {
  if (!job.has_checkpoint() && job.solver_param().snapshot_after_train()) job.mutable_checkpoint();
}

Result<std::vector<std::string>> check_resume(const pb::Job& job) {
  std::vector<std::string> warnings;
  if (!job.has_resume()) return warnings;
  const auto saved = CheckpointReader::open(job.resume());
  if (!saved) {
    const auto whole = CheckpointReader::open_to_resume(job.resume());
    return whole ? saved.error() : whole.error();
  }
  const pb::CheckpointManifest& manifest = saved.value().manifest();
  if (manifest.definition().seed() != job.seed()) {
    warnings.push_back(fmt::format(
        "seed {}: the checkpoint was made with {}; data and dropout are drawn differently",
        job.seed(), manifest.definition().seed()));
  }
  if (Clock(manifest.clock()) >= end_clock(job)) {
    warnings.push_back(
        fmt::format("max_iter {}: the checkpoint is of iteration {}, so nothing is "
                    "left to train",
                    job.solver_param().max_iter(), manifest.clock()));
  }
  return warnings;
}

}  // namespace taut::cli
