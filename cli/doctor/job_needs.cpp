#include "cli/doctor/job_needs.hpp"

#include <algorithm>
#include <filesystem>
#include <string>

#include "cli/job_records.hpp"
#include "proto/config/settle_averaging.hpp"
#include "worker/model/graph.hpp"
#include "worker/model/job/job_data.hpp"
#include "worker/model/job/job_nets.hpp"
#include "worker/model/row_parameters.hpp"

namespace taut::cli {
namespace {

void add(JobNeeds& needs, NeededPath::Use use, const std::string& path) {
  if (path.empty()) return;
  const bool is_known = std::ranges::any_of(
      needs.paths, [&](const NeededPath& one) { return one.use == use && one.path == path; });
  if (!is_known) needs.paths.push_back({use, path});
}

Result<void> add_data(const pb::Job& job, JobNeeds& needs) {
  for (const model::NetChoice& choice : model::nets_of(job)) {
    TAUT_TRY(const auto layers, model::data_of(job, choice));
    for (const model::LayerData& layer : layers) {
      for (const std::string& path : {layer.place.folder, layer.place.images, layer.place.labels}) {
        add(needs, NeededPath::Use::kData, path);
      }
    }
  }
  return ok();
}

/// Where its checkpoints are written: a folder, or the folder of a prefix.
std::string checkpoint_folder(const pb::Job& job) {
  if (!job.checkpoint().folder().empty()) return job.checkpoint().folder();
  const std::string& prefix = job.solver_param().snapshot_prefix();
  return prefix.empty() ? std::string() : std::filesystem::path(prefix).parent_path().string();
}

}  // namespace

Result<JobNeeds> needs_of(const pb::Job& job) {
  JobNeeds needs;
  needs.job = job.name().empty() ? "the job" : job.name();
  // Parts of coded checkpoints are on each server's own disk.
  if (!job.checkpoint().has_coded()) {
    add(needs, NeededPath::Use::kCheckpoints, checkpoint_folder(job));
  }
  if (job.has_resume()) add(needs, NeededPath::Use::kWeights, job.resume());
  for (const std::string& weights : job.weights()) {
    add(needs, NeededPath::Use::kWeights, weights);
  }
  // Its members bring nets and data themselves.
  if (job.external_members()) return needs;
  TAUT_TRY(add_data(job, needs));
  TAUT_TRY(const math::UpdateRule rule, to_shard_rule(job));
  needs.states = rule.state_count();
  TAUT_TRY(const model::Graph graph,
           model::build_graph(model::net_of(job, pb::TRAIN),
                              records_of(job).records.graph_options(pb::TRAIN)));
  for (const TableSpec& table : model::served_tables(graph)) {
    std::uint64_t values = table.count();
    if (table.rows && table.rows->max_rows > 0) {
      const std::uint64_t rows = values / table.width();
      values = std::min(rows, table.rows->max_rows) * table.width();
    }
    needs.parameter_bytes += values * sizeof(float);
  }
  return needs;
}

}  // namespace taut::cli
