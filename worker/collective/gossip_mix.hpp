#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/result.hpp"
#include "worker/collective/all_reduce_group.hpp"
#include "worker/collective/gossip_graph.hpp"

namespace taut::collective {

/// A rank's part in the averages of its parameters with its neighbours', clock by clock:
/// begin() at the start of a clock, wait() and take() at its end.
/// Thread    that of the group
class GossipMix {
 public:
  GossipMix() = default;
  GossipMix(const GossipMix&) = delete;
  GossipMix& operator=(const GossipMix&) = delete;
  virtual ~GossipMix() = default;

  /// Enters another group, and forgets what was exchanged in the previous one.
  virtual void enter(Rank own, std::uint32_t ranks) = 0;
  /// The ranks with which it may exchange in the group that it has entered.
  [[nodiscard]] virtual Schedule links() const = 0;

  /// Sends the parameters. Waits for no rank.
  [[nodiscard]] virtual Result<void> begin(AllReduceGroup& group) = 0;
  [[nodiscard]] virtual bool has_begun() const = 0;
  /// Waits for what the average needs.
  [[nodiscard]] virtual Result<void> wait(AllReduceGroup& group) = 0;
  /// Averages. REQUIRES: wait() succeeded.
  virtual void take() = 0;

  /// What other ranks may still read.
  [[nodiscard]] virtual std::vector<Buffer> lent() const = 0;
  [[nodiscard]] virtual bool is_lent() const = 0;

  /// Notes that the parameters have changed otherwise, after take() or before the first begin().
  virtual void set_values() {}
  /// Whether this rank answers others at any time.
  [[nodiscard]] virtual bool answers() const { return false; }
  /// Answers pending requests, if it can now.
  virtual void answer(AllReduceGroup& /*group*/) {}
  /// Elements that two ranks exchange; 0 if there are no exchanges of two.
  [[nodiscard]] virtual std::uint64_t pair_elements() const { return 0; }

  /// Of the last average: sum over the neighbours of W_ij |x_j - x_i|^2, squared lengths over all
  /// tables; nullopt if there was none.
  [[nodiscard]] virtual std::optional<double> distance() const = 0;
};

}  // namespace taut::collective
