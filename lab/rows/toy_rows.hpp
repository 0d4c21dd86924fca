#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "lab/random.hpp"

namespace taut::sim {

/// Members whose updates a row counts: those with the lowest numbers.
inline constexpr std::uint32_t kCountedMembers = 8;
/// The most updates of a row by one member.
inline constexpr std::int64_t kMaxNamed = 7;

/// A table of the toy job that is kept by rows. Its rows start from 0 or from what a filler draws.
/// Worker w's update at clock k of a row that it names is
///   in column 0   8^w for the members below kCountedMembers, otherwise 0: in base 8 the value
///                 there has a digit for each of them, which counts its updates
///   in others     numbers of many magnitudes, drawn from (table, row, w, k, column): their sum
///                 depends on its order, and on every one of them having reached its own row
/// Which rows a worker pushes and reads at a clock is drawn from (table, w, k).
struct ToyRows {
  std::uint32_t width = 1;
  std::uint32_t named = 12;  // how many rows are ever named
  std::uint64_t stride = 1;  // from one of them to the next
  bool is_filled = false;    // rows do not start from 0
  std::int64_t period = 1;   // clocks in which a worker names a row once at most
  RowTable kept;

  [[nodiscard]] bool drops() const { return kept.max_rows > 0 || kept.idle_clocks > 0; }
  [[nodiscard]] std::uint64_t row(std::uint32_t index) const { return index * stride; }
  /// The named rows of one bucket, ascending.
  [[nodiscard]] std::vector<std::uint64_t> rows_of(SliceId bucket) const;
};

/// Draws one or two tables for a job of `clocks` clocks.
[[nodiscard]] std::vector<ToyRows> draw_rows(Random& random, std::int64_t clocks);

[[nodiscard]] TableSpec toy_row_table(const ToyRows& rows, TableId id);

/// The rows that a worker names in its update at a clock, ascending; often none.
[[nodiscard]] std::vector<std::uint64_t> rows_pushed(const ToyRows& rows, TableId table,
                                                     WorkerId worker, Clock clock);
/// The rows that it reads, in any order, some of them twice; at times none, at times the previous
/// ones.
[[nodiscard]] std::vector<std::uint64_t> rows_read(const ToyRows& rows, TableId table,
                                                   WorkerId worker, Clock clock);
/// One worker's update of one row.
/// out  [width]
void toy_row_update(TableId table, std::uint64_t row, WorkerId worker, Clock clock,
                    std::span<float> out);
/// The number of a member's updates that a row's value in column 0 counts, if it started from 0.
[[nodiscard]] std::int64_t counted(float value, std::uint32_t member);

}  // namespace taut::sim
