#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/ssp/push_schedule.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "lab/rows/toy_rows.hpp"
#include "proto/job.pb.h"

namespace taut::sim {

/// A job whose values show which updates they contain. Tables start at 0; the rule is SGD with rate
/// 1, so that a slice is minus the sum of the updates that it holds. Worker w's update at clock k
/// of a slice is
///   at 2w           1: the slice's value there counts w's updates
///   at 2w + 1       k + 1: the value names which ones, for a worker that skips none
///   from kMixed on  numbers of many magnitudes, drawn from (table, slice, w, k, place): their sum
///                   depends on its order, and on every one of them having reached its own slice
/// Where members bring the initial values, these are their updates of clock 0: 0 up to kMixed, so
/// that they count as no update, and numbers drawn from (table, slice, w, place) from there on.
constexpr std::uint32_t kMembers = 32;
/// Its job number: it is the first job that is submitted.
constexpr JobId kToyJobId{1};
constexpr std::uint32_t kMixed = 2 * kMembers;
constexpr std::uint32_t kSliceElements = kMixed + 4;
/// The records of an equal share of the batch.
constexpr std::uint32_t kToyBatch = 8;

/// How many clocks one push covers; it is made at the last of them.
/// is_seeded  members are programs, whose clocks are meetings of one fragment
[[nodiscard]] std::int64_t interval_of(const pb::Consistency& policies, bool is_seeded);
/// Where the intervals of a table's fragment start, with `tables` tables of one size.
[[nodiscard]] std::int64_t offset_of(const pb::Consistency& policies, bool is_seeded,
                                     std::uint32_t table, std::uint32_t tables);

struct ToyJob {
  std::uint32_t tables = 2;  // that are not kept by rows
  std::uint32_t slices = 2;  // of each table
  std::int64_t clocks = 20;
  std::uint32_t workers = 3;
  bool is_seeded = false;             // members are programs, which bring the initial values
  std::uint32_t min_workers = 0;      // with which the job starts; 0: all
  Slack slack{1};                     // 0: BSP
  bool mean = false;                  // divide by the members instead of adding up
  std::int64_t checkpoint_every = 0;  // clocks; 0: only those that are ordered
  // How many clocks it may be ahead of bounded followers; below 0: it has none.
  std::int64_t follower_slack = -1;
  // Policies in addition to the bound; mode and slack are those above. A slack that moves starts
  // from `slack`; with elastic averaging pushes are added up, whatever `mean` is.
  pb::Consistency policies{};
  pb::Compression compression{};
  // Shares of the batch follow the workers' speeds; an update's weight multiplies it.
  bool balance = false;
  std::vector<ToyRows> rows{};  // tables by rows, after the others

  /// The clock of the first updates that are not initial values.
  [[nodiscard]] std::int64_t first_step() const { return is_seeded ? 1 : 0; }
  [[nodiscard]] PushSchedule schedule_of(std::uint32_t table) const {
    return {interval_of(policies, is_seeded), is_seeded ? Clock::never() : Clock(clocks),
            offset_of(policies, is_seeded, table, tables), 1, is_seeded};
  }
  /// The first clock from `clock` on at which a worker pushes anything.
  [[nodiscard]] Clock next_push(Clock clock) const;
  /// Whether an update counts as it is, so that a slice's values show how many of each worker it
  /// holds.
  [[nodiscard]] bool counts() const;
  /// The number of all of its tables.
  [[nodiscard]] std::uint32_t table_count() const {
    return tables + static_cast<std::uint32_t>(rows.size());
  }
  /// The number of all of their slices and buckets.
  [[nodiscard]] std::size_t slice_count() const;
  /// nullptr if the table is not kept by rows.
  [[nodiscard]] const ToyRows* rows_of(TableId table) const {
    return table.value() < tables ? nullptr : &rows[table.value() - tables];
  }
};

[[nodiscard]] std::vector<TableSpec> toy_tables(const ToyJob& job);
[[nodiscard]] pb::Job toy_definition(const ToyJob& job);

/// One worker's update of one slice.
/// out  [kSliceElements]
void toy_update(TableId table, SliceId slice, WorkerId worker, Clock clock, std::span<float> out);

/// What a member brings as the initial values of one slice.
/// out  [kSliceElements]
void toy_seed(TableId table, SliceId slice, WorkerId worker, std::span<float> out);

}  // namespace taut::sim
