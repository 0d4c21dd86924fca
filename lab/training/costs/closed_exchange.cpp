#include "lab/training/costs/closed_exchange.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "worker/collective/job_exchange.hpp"

namespace taut::lab {
namespace {

// As collective::ReplicaGroup has them.
constexpr std::uint64_t kBucket = (1UL << 20U) / sizeof(float);
constexpr std::uint64_t kChunk = (1UL << 20U) / sizeof(float);
constexpr double kMib = 1UL << 20U;

std::uint64_t values_of(const model::Graph& graph) {
  std::uint64_t values = 0;
  for (const TableSpec& table : graph.parameters) {
    if (table.kind != TableKind::kFrozen) values += table.count();
  }
  return values;
}

/// Elements of the bucket that backward completes last.
std::uint64_t last_bucket(const model::Graph& graph) {
  std::uint64_t count = 0;
  for (auto table = graph.parameters.rbegin(); table != graph.parameters.rend(); ++table) {
    if (table->kind == TableKind::kFrozen) continue;
    if (count >= kBucket) count = 0;
    count += table->count();
  }
  return count;
}

class Exchange {
 public:
  Exchange(const pb::LabCluster& cluster, std::uint32_t servers, std::uint32_t workers,
           const pb::Job& job)
      : cluster_(cluster),
        servers_(servers),
        workers_(workers),
        algorithm_(collective::algorithm_of(job.exchange())),
        graph_(collective::graph_of(job)),
        is_asynchronous_(graph_ && job.exchange().asynchronous()) {}

  Result<ExchangeEstimate> estimate(const model::Graph& graph) const {
    ExchangeEstimate result;
    if (workers_ < 2) return result;
    result.overlaps = graph_.has_value();
    result.waits = !is_asynchronous_;
    TAUT_TRY(const auto used, Topology::make(cluster_, servers_, workers_, 1));
    TAUT_TRY(const auto empty, Topology::make(cluster_, servers_, workers_, 1));
    collective::Cost chain;
    for (std::uint32_t i = 0; i < workers_; ++i) {
      const collective::RankPlace place = place_of(*used, i);
      send_all(*used, i, schedule_of(place, values_of(graph)));
      const collective::Cost cost = cost_of(place, graph_ ? values_of(graph) : last_bucket(graph));
      chain.steps = std::max(chain.steps, cost.steps);
      chain.bytes = std::max(chain.bytes, cost.bytes);
      chain.messages = std::max(chain.messages, cost.messages);
    }
    for (const Pipe& pipe : used->pipes()) {
      result.busiest_us = std::max(result.busiest_us, pipe.busy_us);
    }
    result.chain_us = chain_us(*empty, chain);
    return result;
  }

 private:
  collective::RankPlace place_of(const Topology& topology, std::uint32_t rank) const {
    collective::RankPlace place{collective::Rank(rank), {}};
    for (std::uint32_t i = 0; i < workers_; ++i) {
      place.host_of.push_back(
          static_cast<std::uint32_t>(topology.host_of(topology.worker_node(i))));
    }
    return place;
  }

  /// What a rank sends at each clock, on average.
  collective::Schedule schedule_of(const collective::RankPlace& place, std::uint64_t count) const {
    if (!graph_) return make_schedule(algorithm_, place, count);
    if (!is_asynchronous_) {
      return exchange_schedule(neighbours_of(*graph_, place.rank, workers_), count);
    }
    collective::Schedule schedule;
    if (!is_active(*graph_, place.rank, workers_)) return schedule;
    const auto partners = partners_of(*graph_, place.rank, workers_);
    if (partners.empty()) return schedule;
    collective::add_send(schedule, collective::Phase::kFinal, partners.front().value(), {0, count});
    collective::add_receive(schedule, collective::Phase::kFinal, partners.front().value(),
                            {0, count});
    return schedule;
  }

  collective::Cost cost_of(const collective::RankPlace& place, std::uint64_t count) const {
    if (!graph_) return collective::cost_of(algorithm_, place, count, kChunk);
    const auto of_neighbours =
        exchange_cost(neighbours_of(*graph_, place.rank, workers_), count, kChunk);
    if (!is_asynchronous_) return of_neighbours;
    return {.steps = 2,
            .messages = collective::chunks_of(count, kChunk),
            .bytes = 2 * count * sizeof(float)};
  }

  /// Lets a rank's bytes of a clock pass over the links, as the lab does.
  void send_all(Topology& topology, std::uint32_t rank,
                const collective::Schedule& schedule) const {
    for (const collective::Transfer& transfer : schedule) {
      sim::NodeId from = topology.worker_node(rank);
      sim::NodeId to = topology.worker_node(transfer.peer.value());
      if (!transfer.is_send) {
        // What it receives is sent by the others, but for the answers to those that ask.
        if (!is_asynchronous_) continue;
        std::swap(from, to);
      }
      (void)topology.arrival(from, to, transfer.range.size() * sizeof(float), TimePoint());
    }
  }

  double chain_us(Topology& topology, const collective::Cost& chain) const {
    if (chain.steps == 0) return 0;
    const pb::LabCosts& costs = cluster_.costs();
    const std::uint64_t bytes = chain.bytes / chain.steps;
    const TimePoint there = topology.arrival(
        topology.worker_node(0), topology.worker_node(workers_ - 1), bytes, TimePoint());
    const double messages = std::max(1.0, static_cast<double>(bytes) / (kChunk * sizeof(float)));
    const double of_step = static_cast<double>(there.since_origin().count()) +
                           2 * messages * costs.client_message_us() +
                           static_cast<double>(bytes) / kMib * costs.client_us_per_mib();
    return static_cast<double>(chain.steps) * of_step;
  }

  const pb::LabCluster& cluster_;
  const std::uint32_t servers_;
  const std::uint32_t workers_;
  const collective::Algorithm algorithm_;
  const std::optional<collective::Graph> graph_;
  const bool is_asynchronous_;
};

}  // namespace

Result<ExchangeEstimate> closed_exchange(const pb::LabCluster& cluster, const model::Graph& graph,
                                         std::uint32_t servers, std::uint32_t workers,
                                         const pb::Job& job) {
  return Exchange(cluster, servers, workers, job).estimate(graph);
}

}  // namespace taut::lab
