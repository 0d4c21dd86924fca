#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/ssp/membership.hpp"
#include "common/types.hpp"

namespace taut {

/// A member's update of one clock.
struct HeldUpdate {
  Clock clock;
  WorkerId worker;
  friend auto operator<=>(const HeldUpdate&, const HeldUpdate&) = default;
};

/// A set of held updates that are applied as one.
struct Application {
  std::vector<HeldUpdate> updates;  // ascending: the order of the sum
  // The divisor of the sum: how many members take part at this clock; with backup workers, how many
  // of them count; for a buffer, its size.
  std::size_t members = 0;

  /// The clock of its newest update.
  [[nodiscard]] Clock clock() const { return updates.back().clock; }
};

/// The accepted updates of one slice that wait to be applied: the workers, by clock.
using HeldUpdates = std::map<Clock, std::vector<WorkerId>>;

/// Whether updates may wait for updates of other clocks.
enum class Patience : std::uint8_t {
  kWaits,
  kEnds,  // at the job's end or below a checkpoint: all held updates take effect
};

/// Decides when a set of updates becomes one application. Pure: the shard asks again after each
/// accepted push and each change of membership, until it returns nullopt.
class AggregationPolicy {
 public:
  virtual ~AggregationPolicy() = default;
  /// The next application; nullopt if none is due. `held` lists workers ascending, never empty.
  [[nodiscard]] virtual std::optional<Application> next(
      const HeldUpdates& held, const Membership& membership,
      Patience patience = Patience::kWaits) const = 0;
};

/// According to the job's mode at each clock: all members' updates of the lowest clock as one
/// (kAggregate), or each at once (kOnArrival).
class ModeAggregation final : public AggregationPolicy {
 public:
  [[nodiscard]] std::optional<Application> next(const HeldUpdates& held,
                                                const Membership& membership,
                                                Patience patience) const override;
};

/// BSP with backup workers: the lowest clock is applied as one aggregate of those that have arrived
/// once only `backup_workers` are missing; later updates are dropped. The mean is over those
/// that count. It waits for at least one member, however few are left.
/// Source    Chen et al., "Revisiting Distributed Synchronous SGD", 2016, algorithms 3 and 4
class BackupAggregation final : public AggregationPolicy {
 public:
  explicit BackupAggregation(std::uint32_t backup_workers) : backup_workers_(backup_workers) {}
  [[nodiscard]] std::optional<Application> next(const HeldUpdates& held,
                                                const Membership& membership,
                                                Patience patience) const override;

 private:
  const std::uint32_t backup_workers_;
};

/// One application per `size` updates, of any members and clocks; each counts 1 / size. Fewer are
/// applied only when patience ends, and each counts the same.
/// Source    Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS
///           2022, algorithm 1
class BufferedAggregation final : public AggregationPolicy {
 public:
  /// is_seeded  updates of clock 0 are initial values, and wait for nothing
  BufferedAggregation(std::uint32_t size, bool is_seeded) : size_(size), is_seeded_(is_seeded) {}
  [[nodiscard]] std::optional<Application> next(const HeldUpdates& held,
                                                const Membership& membership,
                                                Patience patience) const override;

 private:
  const std::uint32_t size_;
  const bool is_seeded_;
};

}  // namespace taut
