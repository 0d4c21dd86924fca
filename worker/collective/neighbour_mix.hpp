#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/result.hpp"
#include "common/types.hpp"
#include "worker/collective/all_reduce_group.hpp"
#include "worker/collective/gossip_graph.hpp"
#include "worker/collective/gossip_mix.hpp"
#include "worker/collective/replica_values.hpp"

namespace taut::collective {

/// One rank's average with its neighbours': mixed = own + sum over k of weights[k] (received[k] -
/// own), element by element and in this order, so that the bits are the same each time, and those
/// of own if all values are equal.
/// received  [neighbours][n], one after the other; n elements of own and of mixed
/// Returns   sum over k of weights[k] |received[k] - own|^2
double mix(std::span<const float> own, std::span<const float> received,
           const std::vector<Neighbours::Source>& sources, std::span<float> mixed);

/// A rank's part in the averages of each clock: at its start the neighbours get this rank's
/// parameters, and at its end theirs are averaged into them, so they travel while it computes.
///
/// Source    Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms? A Case
///           Study for Decentralized Parallel Stochastic Gradient Descent", NIPS 2017, algorithm 1
/// Thread    that of the group
class NeighbourMix final : public GossipMix {
 public:
  /// bucket  tables are sent together up to this
  NeighbourMix(ReplicaValues& values, BufferPool& pool, Graph graph, Bytes bucket);

  void enter(Rank own, std::uint32_t ranks) override;
  [[nodiscard]] Schedule links() const override { return exchange_schedule(neighbours_, 1); }
  [[nodiscard]] Result<void> begin(AllReduceGroup& group) override;
  [[nodiscard]] bool has_begun() const override { return has_begun_; }
  [[nodiscard]] Result<void> wait(AllReduceGroup& group) override;
  void take() override;
  [[nodiscard]] std::vector<Buffer> lent() const override;
  [[nodiscard]] bool is_lent() const override;
  [[nodiscard]] std::optional<double> distance() const override { return distance_; }

 private:
  struct Bucket {
    std::vector<std::size_t> tables;
    std::size_t count = 0;  // elements
    Buffer values;          // own, then those of each neighbour
    std::optional<AllReduceGroup::SumId> exchange{};
  };

  ReplicaValues& values_;
  BufferPool& pool_;
  const Graph graph_;
  const std::vector<std::size_t> sizes_;  // elements, by table
  std::vector<Bucket> buckets_;
  Neighbours neighbours_;
  bool has_begun_ = false;
  std::vector<float> mixed_;
  std::optional<double> distance_;
};

}  // namespace taut::collective
