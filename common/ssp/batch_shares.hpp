#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/types.hpp"

namespace taut {

/// How a job's members share the batch of a clock: a pure function of the clock, as the coordinator
/// has announced it. A batch has the same number of records whatever the shares are. Shares follow
/// each other in the order of slots; the records of a slot without a member are left out.
class BatchShares {
 public:
  /// A slot's part of the batches of a clock.
  struct Part {
    std::uint32_t records = 0;
    std::uint64_t first = 0;  // the index of its first record in the batch
    std::uint64_t total = 0;  // records of the batch

    friend bool operator==(const Part&, const Part&) = default;
  };

  BatchShares() = default;
  /// equal  records of every slot before the first change
  BatchShares(std::uint32_t equal, std::uint32_t slots);

  /// Why these shares cannot follow the newest ones; empty if they can.
  [[nodiscard]] std::string why_not(Clock first, std::span<const std::uint32_t> records) const;
  /// From `first` on the slots have these shares. REQUIRES: why_not() is empty.
  void change(Clock first, std::vector<std::uint32_t> records);

  [[nodiscard]] std::span<const std::uint32_t> at(Clock clock) const;
  /// REQUIRES: the slot exists.
  [[nodiscard]] Part part(Clock clock, std::uint32_t slot) const;
  /// The weight of an update: its share divided by an equal one.
  [[nodiscard]] float weight(Clock clock, std::uint32_t slot) const;

 private:
  std::uint32_t equal_ = 1;
  std::uint64_t total_ = 0;
  std::map<Clock, std::vector<std::uint32_t>> changes_;
};

/// How long a slot's records take to compute, without waiting.
struct MeasuredShare {
  std::uint32_t slot = 0;
  double seconds_per_record = 0;  // above 0
  double fixed_s = 0;             // per batch, however many records it has; at least 0

  [[nodiscard]] double seconds_of(double records) const {
    return fixed_s + records * seconds_per_record;
  }
};

/// A measurement of a worker.
/// seconds  for a batch of `records` records
struct BatchTime {
  std::uint32_t records = 0;
  double seconds = 0;
};

/// Estimates a slot's time from two measurements of its worker: the line through them, as far as it
/// is plausible; from one alone, a time in proportion to the records.
[[nodiscard]] MeasuredShare measured_share(std::uint32_t slot, const BatchTime& now,
                                           const std::optional<BatchTime>& before);

/// Shares with which all measured slots take equally long. Together they have as many records as
/// with equal shares; the other slots have equal shares, so that all together are a batch. nullopt
/// if a clock would not be shorter than with the current shares by `min_gain` of its length.
/// measured    each slot once, at least one
/// now         the current shares, by slot
/// equal       records of an equal share
/// min_gain    a fraction; at most 0: never nullopt
[[nodiscard]] std::optional<std::vector<std::uint32_t>> balanced_shares(
    std::span<const MeasuredShare> measured, std::span<const std::uint32_t> now,
    std::uint32_t equal, double min_gain);

}  // namespace taut
