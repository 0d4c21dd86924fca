#include "lab/training/costs/closed_exchange.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lab/training/world.hpp"
#include "worker/collective/job_exchange.hpp"

namespace taut::lab {
namespace {

// As collective::ReplicaGroup sets them.
constexpr std::uint64_t kBucket = (1UL << 20U) / sizeof(float);
constexpr std::uint64_t kChunk = (1UL << 20U) / sizeof(float);

std::uint64_t values_of(const model::Graph& graph) {
  std::uint64_t values = 0;
  for (const TableSpec& table : graph.parameters) {
    if (table.kind != TableKind::kFrozen) values += table.count();
  }
  return values;
}

/// Gradients that are summed together.
struct Bucket {
  std::uint64_t count = 0;  // elements
  double left_us = 0;       // of backward, once they are ready
};

/// In the order in which backward completes them.
/// scale  factor on the compute times
std::vector<Bucket> buckets_of(const model::Graph& graph, const ComputeTimes& times, double scale) {
  std::vector<Bucket> buckets;
  double left_us = 0;
  // From the first layer on, and the buckets from the last one.
  std::vector<std::pair<std::uint64_t, double>> tables;
  for (std::size_t layer = 0; layer < graph.nodes.size(); ++layer) {
    for (const std::size_t number : graph.nodes[layer].parameters) {
      const TableSpec& table = graph.parameters[number];
      if (table.kind != TableKind::kFrozen) tables.emplace_back(table.count(), left_us);
    }
    left_us += scale * times.layer(worker::Pace::Pass::kBackward, layer, 0, Clock(0)) /
               times.factor(0, Clock(0));
  }
  std::ranges::reverse(tables);
  for (const auto& [count, after_us] : tables) {
    if (buckets.empty() || buckets.back().count >= kBucket) buckets.emplace_back();
    buckets.back().count += count;
    buckets.back().left_us = after_us;
  }
  return buckets;
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

  Result<ExchangeEstimate> estimate(const model::Graph& graph, const ComputeTimes& times,
                                    double scale) const {
    ExchangeEstimate result;
    if (workers_ < 2) return result;
    result.overlaps = graph_.has_value();
    result.waits = !is_asynchronous_;
    TAUT_TRY(const auto topology, Topology::make(cluster_, servers_, workers_, 1));
    for (std::uint32_t i = 0; i < workers_; ++i) {
      send_all(*topology, i, schedule_of(place_of(*topology, i), values_of(graph)));
    }
    for (const Pipe& pipe : topology->pipes()) {
      result.busiest_us = std::max(result.busiest_us, pipe.busy_us);
    }
    if (graph_) {
      TAUT_TRY(result.chain_us, chain_us(values_of(graph)));
      return result;
    }
    // Each bucket's sum begins when its gradients are ready and the previous sum is over.
    std::optional<double> end_us;  // after backward
    for (const Bucket& bucket : buckets_of(graph, times, scale)) {
      TAUT_TRY(const double takes_us, chain_us(bucket.count));
      end_us = std::max(end_us.value_or(-bucket.left_us), -bucket.left_us) + takes_us;
    }
    result.chain_us = std::max(0.0, end_us.value_or(0));
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
        // What it receives is sent by the others, except for the answers to those that request.
        if (!is_asynchronous_) continue;
        std::swap(from, to);
      }
      (void)topology.arrival(from, to, transfer.range.size() * sizeof(float), TimePoint());
    }
  }

  /// The time of messages that depend on each other in an exchange of `count` elements.
  Result<double> chain_us(std::uint64_t count) const {
    TAUT_TRY(const auto topology, Topology::make(cluster_, servers_, workers_, 1));
    collective::Cost chain;
    for (std::uint32_t i = 0; i < workers_; ++i) {
      const collective::Cost cost = cost_of(place_of(*topology, i), count);
      chain.steps = std::max(chain.steps, cost.steps);
      chain.bytes = std::max(chain.bytes, cost.bytes);
    }
    if (chain.steps == 0) return 0.0;
    const pb::LabCosts& costs = cluster_.costs();
    const std::uint64_t bytes = chain.bytes / chain.steps;
    const TimePoint there = topology->arrival(
        topology->worker_node(0), topology->worker_node(workers_ - 1), bytes, TimePoint());
    const double messages = std::max(1.0, static_cast<double>(bytes) / (kChunk * sizeof(float)));
    const double of_step =
        static_cast<double>(there.since_origin().count()) +
        message_us(2 * messages * costs.client_message_us(), costs.client_us_per_mib(), bytes);
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
                                         const pb::Job& job, const ComputeTimes& times,
                                         double scale) {
  return Exchange(cluster, servers, workers, job).estimate(graph, times, scale);
}

}  // namespace taut::lab
