#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/result.hpp"
#include "worker/collective/gossip_mix.hpp"
#include "worker/collective/replica_values.hpp"

namespace taut::collective {

/// The average of two models, the same bits at both ends: mixed[i] = (own[i] + theirs[i]) / 2.
/// Returns   |theirs - own|^2
double mix_two(std::span<const float> own, std::span<const float> theirs, std::span<float> mixed);

/// A rank's part in averages of two. An active rank sends its parameters to a randomly chosen
/// partner when a clock starts, and its clock ends with the answer; a passive one answers at any
/// time with its own, and keeps the average of both. The gradient of a clock is computed with the
/// parameters as they were at its start, and applied to those of its end.
///
/// No cycle of ranks can wait for each other: only active ranks wait, for passive ones, and these
/// answer from a separate thread, which waits only while the rule is applied. An active rank's
/// parameters do not change between its request and the answer, so both ends have the same average,
/// and the sum over all ranks does not change.
///
/// Source    Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML
///           2018, algorithm 1 and section "Deadlock"
/// Thread    that of the group
class PairMix final : public GossipMix {
 public:
  /// seed  determines the choice of partners, together with the rank
  PairMix(ReplicaValues& values, BufferPool& pool, Graph graph, std::uint64_t seed);

  void enter(Rank own, std::uint32_t ranks) override;
  [[nodiscard]] Schedule links() const override;
  [[nodiscard]] Result<void> begin(AllReduceGroup& group) override;
  [[nodiscard]] bool has_begun() const override { return has_begun_; }
  [[nodiscard]] Result<void> wait(AllReduceGroup& group) override;
  void take() override;
  [[nodiscard]] std::vector<Buffer> lent() const override;
  [[nodiscard]] bool is_lent() const override;
  void set_values() override;
  [[nodiscard]] bool answers() const override { return !is_active_; }
  void answer(AllReduceGroup& group) override;
  [[nodiscard]] std::uint64_t pair_elements() const override { return model_.size(); }
  [[nodiscard]] std::optional<double> distance() const override { return distance_; }

 private:
  ReplicaValues& values_;
  BufferPool& pool_;
  const Graph graph_;
  const std::uint64_t seed_;
  const std::vector<std::size_t> sizes_;  // elements, by table
  std::vector<float> model_;              // the parameters of all tables, with the averages since
  bool is_known_ = false;                 // model_ is current, and may be averaged with
  Rank own_;
  bool is_active_ = false;
  std::vector<Rank> partners_;
  std::uint64_t draws_ = 0;
  bool has_begun_ = false;
  Buffer request_;  // an active rank's: its own values, then the answer
  std::optional<AllReduceGroup::SumId> pair_;
  Buffer answer_;
  std::vector<float> scratch_;
  std::optional<double> distance_;
};

}  // namespace taut::collective
