#include "lab/training/costs/closed_model.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "common/ssp/compression.hpp"
#include "common/ssp/slice_layout.hpp"
#include "lab/training/costs/closed_exchange.hpp"
#include "lab/training/costs/codec_costs.hpp"
#include "lab/training/costs/compute_times.hpp"
#include "proto/config/exchange/settle_exchange.hpp"
#include "proto/config/settle_compression.hpp"
#include "worker/collective/job_exchange.hpp"
#include "worker/model/row_parameters.hpp"

namespace taut::lab {
namespace {

constexpr double kUsPerMs = 1e3;
constexpr double kMib = 1UL << 20U;

/// The amounts of one worker's exchange: its updates, and the values that it reads.
struct Load {
  double pushed = 0;            // bytes
  double pulled = 0;            // bytes
  double applied = 0;           // bytes of float32 values that change
  double messages = 0;          // one for each slice
  double decode_us = 0;         // of updates
  double encode_us = 0;         // of values, once for each version
  double worker_coding_us = 0;  // of both
};

struct Loads {
  std::vector<Load> shards;
  Load first;  // of the first table
};

/// Adds a slice's values.
void add_dense(const TableSpec& table, std::uint64_t count, const Compression& compression,
               const CodecCosts& codecs, Load& load) {
  const math::Encoding push = compression.of_push(table);
  const math::Encoding pull = compression.of_pull(table);
  load.pushed += static_cast<double>(math::encoded_bytes(push, count));
  load.pulled += static_cast<double>(math::encoded_bytes(pull, count));
  load.applied += static_cast<double>(count) * sizeof(float);
  load.decode_us += codecs.decode_us(push, count);
  load.encode_us += codecs.encode_us(pull, count);
  load.worker_coding_us += codecs.encode_us(push, count) + codecs.decode_us(pull, count);
}

/// Adds a bucket's part of a batch's rows: their numbers are in the request and in the update.
void add_rows(const TableSpec& table, Load& load) {
  const double rows = static_cast<double>(table.rows->clock_rows) / table.rows->buckets;
  const double values = rows * static_cast<double>(table.width()) * sizeof(float);
  load.pushed += 2 * rows * sizeof(std::uint64_t) + values;
  load.pulled += values;
  load.applied += values;
}

Loads loads_of(const std::vector<TableSpec>& tables, const Compression& compression,
               const CodecCosts& codecs, std::uint32_t servers) {
  std::vector<ShardId> shards;
  for (std::uint32_t i = 0; i < servers; ++i) shards.emplace_back(i);
  const SliceLayout layout(tables, shards);
  Loads loads{std::vector<Load>(servers), {}};
  const auto add = [&](const Slice& slice, Load& load) {
    const TableSpec& table = tables[slice.table.value()];
    if (table.rows) {
      add_rows(table, load);
    } else {
      add_dense(table, slice.count, compression, codecs, load);
    }
    ++load.messages;
  };
  for (const Slice& slice : layout.slices()) {
    add(slice, loads.shards[slice.shard.value()]);
    if (slice.table == TableId(0)) add(slice, loads.first);
  }
  return loads;
}

/// The number of clocks from one exchange of a worker with the servers to the next.
std::uint32_t interval_of(const pb::Consistency& consistency) {
  if (consistency.has_periodic_averaging()) return consistency.periodic_averaging().interval();
  return consistency.has_elastic_averaging() ? consistency.elastic_averaging().interval() : 1;
}

/// The busiest link's time for an exchange of all workers, and the round trip of the first table.
struct Network {
  double busiest_us = 0;
  double first_us = 0;
};

/// Adds an exchange's bytes to the links that they pass, as in the lab.
Result<Network> network_of(const pb::LabCluster& cluster, const Loads& loads,
                           std::uint32_t workers) {
  Network network;
  const auto servers = static_cast<std::uint32_t>(loads.shards.size());
  const auto bytes = [](double count) { return static_cast<std::uint64_t>(count); };
  TAUT_TRY(const auto used, Topology::make(cluster, servers, workers, 1));
  TAUT_TRY(const auto empty, Topology::make(cluster, servers, workers, 1));
  Topology& topology = *used;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    for (std::uint32_t server = 0; server < servers; ++server) {
      const Load& load = loads.shards[server];
      const sim::NodeId from = topology.worker_node(worker);
      const sim::NodeId to = topology.server_node(server);
      (void)topology.arrival(from, to, bytes(load.pushed), TimePoint());
      (void)topology.arrival(to, from, bytes(load.pulled), TimePoint());
    }
  }
  for (const Pipe& pipe : topology.pipes()) {
    network.busiest_us = std::max(network.busiest_us, pipe.busy_us);
  }
  const sim::NodeId worker = topology.worker_node(workers - 1);
  const sim::NodeId server = topology.server_node(0);
  for (const TimePoint there :
       {empty->arrival(worker, server, bytes(loads.first.pushed), TimePoint()),
        empty->arrival(server, worker, bytes(loads.first.pulled), TimePoint())}) {
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

/// Adds the time that servers and the way to them take for a clock.
Result<void> add_servers(const pb::LabCluster& cluster, const model::Graph& graph,
                         std::uint32_t servers, std::uint32_t workers, Slack slack,
                         const pb::Job& job, ClosedEstimate& estimate) {
  TAUT_TRY(const Compression compression, to_compression(job));
  const pb::LabCosts& costs = cluster.costs();
  const Loads loads =
      loads_of(model::served_tables(graph), compression, CodecCosts(costs), servers);
  TAUT_TRY(const Network network, network_of(cluster, loads, workers));
  const double each_ms = kUsPerMs * interval_of(job.consistency());
  estimate.network_ms = network.busiest_us / each_ms;
  // In lock-step all workers read the same version.
  const std::uint32_t versions = slack == Slack(0) ? 1 : workers;
  const auto moving_us = [&costs](const Load& load) {
    return (load.pushed + load.pulled) / kMib * costs.shard_us_per_mib() +
           load.applied / kMib * costs.apply_us_per_mib() + load.decode_us;
  };
  for (const Load& load : loads.shards) {
    const double of_worker_us = load.messages * costs.shard_message_us() + moving_us(load);
    estimate.server_ms = std::max(estimate.server_ms,
                                  (workers * of_worker_us + versions * load.encode_us) / each_ms);
  }
  const Load& first = loads.first;
  const double own_us = costs.shard_message_us() + 2 * costs.client_message_us() +
                        moving_us(first) + first.encode_us + first.worker_coding_us +
                        first.pulled / kMib * costs.client_us_per_mib();
  estimate.exposed_ms = (network.first_us + own_us) / each_ms;
  return ok();
}

/// Determines the time of a clock, and what limits it.
void decide(ClosedEstimate& estimate) {
  const double of_workers = estimate.compute_ms + estimate.spread_ms + estimate.exposed_ms;
  estimate.clock_ms = std::max({of_workers, estimate.network_ms, estimate.server_ms});
  if (estimate.clock_ms == of_workers) {
    estimate.limit = estimate.spread_ms > estimate.compute_ms / 4 ? "stragglers" : "compute";
  } else {
    estimate.limit = estimate.clock_ms == estimate.network_ms ? "network" : "server";
  }
}

using Ends = std::vector<double>;  // of each worker's interval

/// How long a clock takes, over the mean of its computing. By simulation, as sums of these
/// distributions have no closed form.
/// wait  given when workers began an interval and ended computing it, raises the ends to when they
///       begin the next one
double mean_of_intervals(const pb::LabCompute& compute, std::uint32_t workers,
                         std::int64_t interval,
                         const std::function<void(const Ends& begins, Ends& ends)>& wait) {
  if (compute.spread() == pb::LabCompute::CONSTANT || workers <= 1) return 1;
  // The fewer workers there are and the shorter the interval, the more intervals count.
  constexpr std::int64_t kDraws = 25'600;
  const std::int64_t warm_up = std::max<std::int64_t>(10, 200 / interval);
  const std::int64_t counted = std::clamp(kDraws / (workers * interval), warm_up, 16 * warm_up);
  const ComputeTimes times = ComputeTimes::of_spread(compute, 1);
  Ends ends(workers);
  double warmed_up = 0;  // the mean of `ends` then
  const auto mean = [&ends] {
    return std::accumulate(ends.begin(), ends.end(), 0.0) / static_cast<double>(ends.size());
  };
  for (std::int64_t number = 0; number < warm_up + counted; ++number) {
    if (number == warm_up) warmed_up = mean();
    const Ends begins = ends;
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      for (std::int64_t clock = 0; clock < interval; ++clock) {
        ends[worker] += times.factor(worker, Clock(number * interval + clock));
      }
    }
    wait(begins, ends);
  }
  return (mean() - warmed_up) / static_cast<double>(counted * interval);
}

/// mean_under_bound() of a job at the servers, or what its workers' exchange makes them wait.
double mean_clock(const pb::LabCompute& compute, std::uint32_t workers, Slack slack,
                  const pb::Job& job) {
  constexpr std::int64_t kMaxInterval = 64;  // a longer one spreads hardly less
  if (slack.is_unbounded()) return 1;
  if (!exchanges_at_workers(job)) {
    const std::int64_t interval = interval_of(job.consistency());
    return mean_under_bound(compute, workers, std::min(interval, kMaxInterval), slack);
  }
  if (const auto graph = collective::graph_of(job)) {
    return mean_with_neighbours(compute, workers, *graph);
  }
  return mean_under_bound(compute, workers, 1, slack);
}

}  // namespace

double mean_under_bound(const pb::LabCompute& compute, std::uint32_t workers, std::int64_t interval,
                        Slack slack) {
  if (slack.is_unbounded()) return 1;
  std::vector<double> last_ends{0};  // of each interval, the last worker's
  return mean_of_intervals(compute, workers, interval, [&](const Ends&, Ends& ends) {
    last_ends.push_back(*std::ranges::max_element(ends));
    const auto next = static_cast<std::int64_t>(last_ends.size()) - 1;
    const auto done = static_cast<std::size_t>(std::max<std::int64_t>(0, next - slack.clocks()));
    for (double& end : ends) end = std::max(end, last_ends[done]);
  });
}

double mean_with_neighbours(const pb::LabCompute& compute, std::uint32_t workers,
                            collective::Graph graph) {
  std::vector<collective::Neighbours> neighbours;
  for (std::uint32_t i = 0; i < workers; ++i) {
    neighbours.push_back(neighbours_of(graph, collective::Rank(i), workers));
  }
  return mean_of_intervals(compute, workers, 1, [&](const Ends& begins, Ends& ends) {
    for (std::uint32_t i = 0; i < workers; ++i) {
      for (const auto& source : neighbours[i].from) {
        ends[i] = std::max(ends[i], begins[source.rank.value()]);
      }
    }
  });
}

Result<ClosedEstimate> closed_estimate(const pb::LabCluster& cluster, const Topology& topology,
                                       const model::Graph& graph, std::int64_t batch,
                                       std::uint32_t servers, std::uint32_t workers, Slack slack,
                                       const pb::Job& job) {
  ClosedEstimate estimate;
  TAUT_TRY(const ComputeTimes times, ComputeTimes::make(cluster.compute(), graph, batch, 1));
  const double batch_ms = compute_ms(topology, times.whole_clock() / kUsPerMs, workers);
  estimate.compute_ms = job.solver_param().iter_size() * batch_ms;
  const bool exchanges = exchanges_at_workers(job);
  ExchangeEstimate exchange;
  if (exchanges) {
    TAUT_TRY(exchange, closed_exchange(cluster, graph, servers, workers, job, times,
                                       batch_ms * kUsPerMs / times.whole_clock()));
    slack = exchange.waits ? Slack(0) : Slack::unbounded();
  }
  estimate.spread_ms =
      estimate.compute_ms * (mean_clock(cluster.compute(), workers, slack, job) - 1);
  if (!exchanges) {
    TAUT_TRY(add_servers(cluster, graph, servers, workers, slack, job, estimate));
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
