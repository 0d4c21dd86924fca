#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/ssp/membership.hpp"
#include "common/types.hpp"

namespace taut {

/// A set of held updates that is to be applied as one, in this order.
struct Application {
  Clock clock;
  std::vector<WorkerId> workers;  // ascending: the order of the sum
  std::size_t members = 0;        // how many take part at this clock: what the sum is divided by
};

/// The accepted updates of one slice that wait to be applied: for each clock, whose.
using HeldUpdates = std::map<Clock, std::vector<WorkerId>>;

/// Decides when a set of updates becomes one application. Pure: the shard asks again after each
/// accepted push and each change of membership, until it answers nothing.
class AggregationPolicy {
 public:
  virtual ~AggregationPolicy() = default;
  /// The next application, or nothing yet. `held` lists workers in ascending order, never empty.
  [[nodiscard]] virtual std::optional<Application> next(const HeldUpdates& held,
                                                        const Membership& membership) const = 0;
};

/// What the job's mode at each clock says: all members' updates of the lowest clock as one
/// (kAggregate), or each at once (kOnArrival).
class ModeAggregation final : public AggregationPolicy {
 public:
  [[nodiscard]] std::optional<Application> next(const HeldUpdates& held,
                                                const Membership& membership) const override;
};

}  // namespace taut
