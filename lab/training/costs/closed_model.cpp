#include "lab/training/costs/closed_model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/ssp/slice_layout.hpp"
#include "lab/training/costs/closed_exchange.hpp"
#include "lab/training/costs/compute_times.hpp"
#include "proto/config/exchange/settle_exchange.hpp"

namespace taut::lab {
namespace {

constexpr double kUsPerMs = 1e3;
constexpr double kMib = 1UL << 20U;

/// What one worker's clock costs each shard: the parts of the tables that are there, each way, and
/// a message for each table.
struct ShardLoad {
  double bytes = 0;
  double messages = 0;
};

std::vector<ShardLoad> loads_of(const model::Graph& graph, std::uint32_t servers) {
  std::vector<ShardId> shards;
  for (std::uint32_t i = 0; i < servers; ++i) shards.emplace_back(i);
  const SliceLayout layout(graph.parameters, shards);
  std::vector<ShardLoad> loads(servers);
  for (const Slice& slice : layout.slices()) {
    ShardLoad& load = loads[slice.shard.value()];
    load.bytes += static_cast<double>(slice.count) * sizeof(float);
    ++load.messages;
  }
  return loads;
}

/// The busiest link's time for a clock of all workers, and the round trip of the first table.
struct Network {
  double busiest_us = 0;
  double first_us = 0;
};

/// Lets one clock's bytes pass over the links, as the lab does.
Result<Network> network_of(const pb::LabCluster& cluster, const std::vector<ShardLoad>& loads,
                           double first_bytes, std::uint32_t workers) {
  Network network;
  const auto servers = static_cast<std::uint32_t>(loads.size());
  TAUT_TRY(const auto used, Topology::make(cluster, servers, workers, 1));
  TAUT_TRY(const auto empty, Topology::make(cluster, servers, workers, 1));
  Topology& topology = *used;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    for (std::uint32_t server = 0; server < servers; ++server) {
      const auto bytes = static_cast<std::uint64_t>(loads[server].bytes);
      const sim::NodeId from = topology.worker_node(worker);
      const sim::NodeId to = topology.server_node(server);
      (void)topology.arrival(from, to, bytes, TimePoint());
      (void)topology.arrival(to, from, bytes, TimePoint());
    }
  }
  for (const Pipe& pipe : topology.pipes()) {
    network.busiest_us = std::max(network.busiest_us, pipe.busy_us);
  }
  const sim::NodeId worker = topology.worker_node(workers - 1);
  const sim::NodeId server = topology.server_node(0);
  const auto first = static_cast<std::uint64_t>(first_bytes);
  for (const auto& [from, to] : {std::pair(worker, server), std::pair(server, worker)}) {
    const TimePoint there = empty->arrival(from, to, first, TimePoint());
    network.first_us += static_cast<double>(there.since_origin().count());
  }
  return network;
}

/// The slowest host decides: its speed, and how many of its threads share its cores or devices.
double compute_ms(const Topology& topology, double alone_ms, std::uint32_t workers) {
  std::map<std::size_t, std::uint32_t> on_host;
  for (std::uint32_t i = 0; i < workers; ++i) ++on_host[topology.host_of(topology.worker_node(i))];
  double slowest = 0;
  for (const auto& [number, count] : on_host) {
    const Topology::Host& host = topology.hosts()[number];
    const auto own = static_cast<double>(host.devices > 0 ? host.devices : host.cores);
    const double share = std::max(1.0, host.devices > 0 ? std::ceil(count / own) : count / own);
    slowest = std::max(slowest, alone_ms * share / host.speed);
  }
  return slowest;
}

/// Adds what servers and the way to them take.
Result<void> add_servers(const pb::LabCluster& cluster, const model::Graph& graph,
                         std::uint32_t servers, std::uint32_t workers, ClosedEstimate& estimate) {
  const std::vector<ShardLoad> loads = loads_of(graph, servers);
  const double first_bytes = graph.parameters.empty()
                                 ? 0
                                 : sizeof(float) * static_cast<double>(graph.parameters[0].count());
  TAUT_TRY(const Network network, network_of(cluster, loads, first_bytes, workers));
  estimate.network_ms = network.busiest_us / kUsPerMs;
  const pb::LabCosts& costs = cluster.costs();
  for (const ShardLoad& load : loads) {
    const double of_worker_us =
        load.messages * costs.shard_message_us() +
        load.bytes / kMib * (2 * costs.shard_us_per_mib() + costs.apply_us_per_mib());
    estimate.server_ms = std::max(estimate.server_ms, workers * of_worker_us / kUsPerMs);
  }
  const double own_us =
      costs.shard_message_us() + 2 * costs.client_message_us() +
      first_bytes / kMib *
          (2 * costs.shard_us_per_mib() + costs.apply_us_per_mib() + costs.client_us_per_mib());
  estimate.exposed_ms = (network.first_us + own_us) / kUsPerMs;
  return ok();
}

/// Decides what a clock takes, and by what.
void decide(ClosedEstimate& estimate) {
  const double of_workers = estimate.compute_ms + estimate.spread_ms + estimate.exposed_ms;
  estimate.clock_ms = std::max({of_workers, estimate.network_ms, estimate.server_ms});
  if (estimate.clock_ms == of_workers) {
    estimate.limit = estimate.spread_ms > estimate.compute_ms / 4 ? "stragglers" : "compute";
  } else {
    estimate.limit = estimate.clock_ms == estimate.network_ms ? "network" : "server";
  }
}

}  // namespace

double mean_of_largest(const pb::LabCompute& compute, std::uint32_t count, std::int64_t clocks) {
  if (compute.spread() == pb::LabCompute::CONSTANT || count <= 1) return 1;
  // By draws, as sums of these distributions have no closed form.
  constexpr int kTrials = 200;
  const ComputeTimes times = ComputeTimes::of_spread(compute, 1);
  double sum = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    double largest = 0;
    for (std::uint32_t worker = 0; worker < count; ++worker) {
      double mean = 0;
      for (std::int64_t clock = 0; clock < clocks; ++clock) {
        mean += times.factor(worker, Clock(trial * clocks + clock));
      }
      largest = std::max(largest, mean / static_cast<double>(clocks));
    }
    sum += largest;
  }
  return sum / kTrials;
}

Result<ClosedEstimate> closed_estimate(const pb::LabCluster& cluster, const Topology& topology,
                                       const model::Graph& graph, std::int64_t batch,
                                       std::uint32_t servers, std::uint32_t workers, Slack slack,
                                       const pb::Job& job) {
  ClosedEstimate estimate;
  TAUT_TRY(const ComputeTimes times, ComputeTimes::make(cluster.compute(), graph, batch, 1));
  estimate.compute_ms = compute_ms(topology, times.whole_clock() / kUsPerMs, workers);
  const bool exchanges = exchanges_at_workers(job);
  ExchangeEstimate exchange;
  if (exchanges) {
    TAUT_TRY(exchange, closed_exchange(cluster, graph, servers, workers, job, times,
                                       estimate.compute_ms * kUsPerMs / times.whole_clock()));
    slack = exchange.waits ? Slack(0) : Slack::unbounded();
  }
  constexpr std::int64_t kMaxClocks = 64;
  if (!slack.is_unbounded()) {
    const std::int64_t clocks = std::min(slack.clocks() + 1, kMaxClocks);
    estimate.spread_ms =
        estimate.compute_ms * (mean_of_largest(cluster.compute(), workers, clocks) - 1);
  }
  if (!exchanges) {
    TAUT_TRY(add_servers(cluster, graph, servers, workers, estimate));
    decide(estimate);
    return estimate;
  }
  estimate.network_ms = exchange.busiest_us / kUsPerMs;
  const double chain_ms = exchange.chain_us / kUsPerMs;
  const double computing_ms = estimate.compute_ms + estimate.spread_ms;
  estimate.exposed_ms = exchange.overlaps ? std::max(0.0, chain_ms - computing_ms) : chain_ms;
  decide(estimate);
  if (estimate.limit != "network" && estimate.exposed_ms > computing_ms) {
    estimate.limit = "messages";
  }
  return estimate;
}

}  // namespace taut::lab
