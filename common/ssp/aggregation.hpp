#pragma once

#include <map>
#include <optional>
#include <vector>

#include "common/ssp/membership.hpp"
#include "common/types.hpp"

namespace taut {

/// A set of held updates that is to be applied as one, in this order.
struct Application {
  Clock clock;
  std::vector<WorkerId> workers;  // ascending: the order of the sum
  // What the sum is divided by: how many take part at this clock; with backup workers, how many of
  // them count.
  std::size_t members = 0;
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

/// According to the job's mode at each clock: all members' updates of the lowest clock as one
/// (kAggregate), or each at once (kOnArrival).
class ModeAggregation final : public AggregationPolicy {
 public:
  [[nodiscard]] std::optional<Application> next(const HeldUpdates& held,
                                                const Membership& membership) const override;
};

/// BSP with backup workers: the lowest clock is applied as one aggregate of those that have arrived
/// once only `backup_workers` are missing; later updates are dropped. The mean is over those
/// that count. One member at least is waited for, however few are left.
/// Source    Chen et al., "Revisiting Distributed Synchronous SGD", 2016, algorithms 3 and 4
class BackupAggregation final : public AggregationPolicy {
 public:
  explicit BackupAggregation(std::uint32_t backup_workers) : backup_workers_(backup_workers) {}
  [[nodiscard]] std::optional<Application> next(const HeldUpdates& held,
                                                const Membership& membership) const override;

 private:
  const std::uint32_t backup_workers_;
};

}  // namespace taut
