#include "lab/training/costs/cluster_misfit.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/did_you_mean.hpp"
#include "lab/training/costs/memory_needs.hpp"
#include "lab/training/topology.hpp"
#include "worker/model/row_parameters.hpp"
#include "worker/replica.hpp"

namespace taut::lab {
namespace {

bool has_times(const pb::LabCompute& compute) {
  return compute.layer_size() > 0 || compute.has_clock_ms() || compute.time_ms_size() > 0;
}

}  // namespace

double heartbeat_s(std::uint32_t workers) {
  constexpr double kMin_s = 0.2;  // as `tautline train` sets it for its daemons
  constexpr double kOfMany_s = 2e-3;
  constexpr double kMax_s = 4;
  return std::clamp(kOfMany_s * workers, kMin_s, kMax_s);
}

std::optional<ClusterMisfit> heartbeat_misfit(const pb::LabControl& control,
                                              std::uint32_t workers) {
  const double apart_s = heartbeat_s(workers);
  if (control.heartbeat_limit_s() > 2 * apart_s) return std::nullopt;
  return ClusterMisfit{
      .steps = {{"control"}, {"heartbeat_limit_s"}},
      .what = fmt::format("control: heartbeat_limit_s must be more than {:g} with {} workers, "
                          "whose heartbeats are {:g} s apart, is {:g}",
                          2 * apart_s, workers, apart_s, control.heartbeat_limit_s())};
}

std::optional<ClusterMisfit> times_misfit(const pb::LabCompute& compute,
                                          const model::Graph& graph) {
  if (!has_times(compute)) {
    return ClusterMisfit{
        .steps = {{"compute"}},
        .what = "the cluster file gives no compute times; add compute { clock_ms: 20 }"};
  }
  std::vector<std::string> known;
  for (const model::Node& node : graph.nodes) known.push_back(node.definition.name());
  for (int i = 0; i < compute.layer_size(); ++i) {
    const std::string& name = compute.layer(i).name();
    if (std::ranges::count(known, name) > 0) continue;
    return ClusterMisfit{.steps = {{"compute"}, {"layer", i}, {"name"}},
                         .what = fmt::format("compute: the net \"{}\" has no layer \"{}\"{}",
                                             graph.name, name, did_you_mean(name, known))};
  }
  return std::nullopt;
}

Result<std::optional<ClusterMisfit>> cluster_misfit(const pb::Job& job,
                                                    const pb::LabCluster& cluster,
                                                    std::uint32_t servers) {
  if (auto misfit = heartbeat_misfit(cluster.control(), job.workers())) return misfit;
  const pb::LabCompute& compute = cluster.compute();
  if (!has_times(compute)) return times_misfit(compute, {});
  const bool has_memory = std::ranges::any_of(cluster.host(), &pb::LabHost::has_memory_gib);
  if (compute.layer_size() == 0 && !has_memory) return std::nullopt;
  TAUT_TRY(const worker::JobAssets assets, worker::JobAssets::open(job, job.workers()));
  if (auto misfit = times_misfit(compute, assets.train_graph())) return misfit;
  if (!has_memory) return std::nullopt;
  TAUT_TRY(const auto topology, Topology::make(cluster, servers, job.workers(), job.seed()));
  return host_misfit(job, model::served_tables(assets.train_graph()), cluster, *topology, servers);
}

}  // namespace taut::lab
