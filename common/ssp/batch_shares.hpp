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
/// has announced it. A batch has as many records whatever the shares are, and each share has those
/// that follow the ones of the slots before it; those of a slot without a member are left out.
class BatchShares {
 public:
  /// A slot's part of the batches of a clock.
  struct Part {
    std::uint32_t records = 0;
    std::uint64_t first = 0;  // its place in the batch
    std::uint64_t total = 0;  // records of the batch

    friend bool operator==(const Part&, const Part&) = default;
  };

  BatchShares() = default;
  /// equal  records of every slot before the first change
  BatchShares(std::uint32_t equal, std::uint32_t slots);

  /// What is wrong with shares that are to follow the newest ones; empty: nothing.
  [[nodiscard]] std::string why_not(Clock first, std::span<const std::uint32_t> records) const;
  /// From `first` on the slots have these shares. REQUIRES: why_not() is empty.
  void change(Clock first, std::vector<std::uint32_t> records);

  [[nodiscard]] std::span<const std::uint32_t> at(Clock clock) const;
  /// REQUIRES: slot is one of the slots.
  [[nodiscard]] Part part(Clock clock, std::uint32_t slot) const;
  /// What an update counts: its share over an equal one.
  [[nodiscard]] float weight(Clock clock, std::uint32_t slot) const;

 private:
  std::uint32_t equal_ = 1;
  std::uint64_t total_ = 0;
  std::map<Clock, std::vector<std::uint32_t>> changes_;
};

/// How long a slot's records take: of computing, not of waiting.
struct MeasuredShare {
  std::uint32_t slot = 0;
  double seconds_per_record = 0;  // above 0
  double fixed_s = 0;             // of each batch, however many records it has; at least 0

  [[nodiscard]] double seconds_of(double records) const {
    return fixed_s + records * seconds_per_record;
  }
};

/// A measurement of a worker.
/// seconds  of a batch of so many records
struct BatchTime {
  std::uint32_t records = 0;
  double seconds = 0;
};

/// What two measurements of a worker say: the line through them, as far as it can be; from one
/// alone, that the time is in proportion to the records.
[[nodiscard]] MeasuredShare measured_share(std::uint32_t slot, const BatchTime& now,
                                           const std::optional<BatchTime>& before);

/// Shares with which the slots that are measured take as long as each other, of as many records as
/// equal shares of them; the other slots have equal shares, so that all together are a batch.
/// Nothing: a clock would not be shorter by `min_gain` of its length than with the shares of now.
/// measured    each slot once, at least one
/// now         by slot
/// equal       records of an equal share
/// min_gain    at most 0: whatever the gain
[[nodiscard]] std::optional<std::vector<std::uint32_t>> balanced_shares(
    std::span<const MeasuredShare> measured, std::span<const std::uint32_t> now,
    std::uint32_t equal, double min_gain);

}  // namespace taut
