#include "worker/collective/job_exchange.hpp"

#include "proto/config/exchange/settle_exchange.hpp"

namespace taut::collective {

Algorithm algorithm_of(const pb::WorkerExchange& exchange) {
  switch (exchange.algorithm()) {
    case pb::WorkerExchange::RING:
      break;
    case pb::WorkerExchange::HALVING:
      return Algorithm::kHalving;
    case pb::WorkerExchange::DOUBLE_TREE:
      return Algorithm::kDoubleTree;
    case pb::WorkerExchange::HIERARCHICAL:
      return Algorithm::kHierarchical;
  }
  return Algorithm::kRing;
}

std::optional<Graph> graph_of(const pb::Job& job) {
  if (!gossips(job)) return std::nullopt;
  switch (job.exchange().graph()) {
    case pb::GossipGraph::RING:
      break;
    case pb::GossipGraph::TORUS:
      return Graph::kTorus;
    case pb::GossipGraph::HYPERCUBE:
      return Graph::kHypercube;
    case pb::GossipGraph::EXPONENTIAL:
      return Graph::kExponential;
  }
  return Graph::kRing;
}

}  // namespace taut::collective
