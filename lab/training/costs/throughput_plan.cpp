#include "lab/training/costs/throughput_plan.hpp"

#include <algorithm>

namespace taut::lab {
namespace {

/// The number of workers on a host of that kind.
std::uint32_t places_of(const pb::LabHost& kind) {
  return kind.devices() > 0 ? std::min(kind.devices(), kind.workers()) : kind.workers();
}

/// The cluster with workers on `hosts` hosts of one kind alone, and all of its servers.
pb::LabCluster only_on(const pb::LabCluster& cluster, int kind, std::uint32_t hosts) {
  pb::LabCluster only = cluster;
  only.clear_outage();
  only.clear_host();
  for (int i = 0; i < cluster.host_size(); ++i) {
    pb::LabHost rest = cluster.host(i);
    if (i == kind) {
      pb::LabHost& used = *only.add_host();
      used = rest;
      used.set_count(hosts);
      used.set_workers(places_of(rest));
      if (rest.count() == hosts) continue;
      rest.set_count(rest.count() - hosts);
      rest.set_name(rest.name() + "-unused");
    }
    rest.set_workers(0);
    *only.add_host() = rest;
  }
  return only;
}

class Rates {
 public:
  Rates(const ScalingOptions& options, ScalingPlanner planner)
      : options_(options), planner_(std::move(planner)) {}

  Result<void> add_kind(int kind) {
    const pb::LabHost& host = options_.cluster.host(kind);
    const std::uint64_t places = places_of(host);
    for (const bool across : {false, true}) {
      for (const std::uint32_t workers : options_.workers) {
        const std::uint64_t hosts =
            across ? std::max<std::uint64_t>(2, (workers + places - 1) / places) : 1;
        const bool fits = hosts <= host.count() && workers <= hosts * places;
        if (!fits || (across && workers < 2)) continue;
        TAUT_TRY(add(kind, static_cast<std::uint32_t>(hosts), workers));
      }
    }
    return ok();
  }

  [[nodiscard]] std::vector<KindRate> take() { return std::move(rates_); }

 private:
  Result<void> add(int kind, std::uint32_t hosts, std::uint32_t workers) {
    constexpr double kMsPerS = 1e3;
    TAUT_TRY(const ScalingPoint point, planner_.plan(only_on(options_.cluster, kind, hosts),
                                                     workers, planner_.slacks().front()));
    const double clock_ms = point.lab_ms.value_or(point.estimate.clock_ms);
    const double iterations = options_.job.global_batch() ? 1 : workers;
    rates_.push_back({.kind = options_.cluster.host(kind).name(),
                      .across = hosts > 1,
                      .workers = workers,
                      .iterations_per_s = iterations * kMsPerS / clock_ms});
    return ok();
  }

  const ScalingOptions& options_;
  ScalingPlanner planner_;
  std::vector<KindRate> rates_;
};

}  // namespace

Result<ThroughputPlan> plan_throughput(const ScalingOptions& options) {
  TAUT_TRY(ScalingPlanner planner, ScalingPlanner::make(options));
  if (planner.slacks().size() > 1) {
    return invalid("--slack: a throughput is that under one slack; give one");
  }
  Rates rates(options, std::move(planner));
  for (int kind = 0; kind < options.cluster.host_size(); ++kind) {
    if (options.cluster.host(kind).workers() == 0) continue;
    TAUT_TRY(rates.add_kind(kind));
  }
  return ThroughputPlan{options.job.net_param().name(), rates.take()};
}

}  // namespace taut::lab
