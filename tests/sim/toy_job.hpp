#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/ssp/push_schedule.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "proto/job.pb.h"

namespace taut::sim {

/// A job whose values tell what they are made of. Tables start at 0; the rule is SGD with rate 1,
/// so that a slice is minus the sum of the updates that it holds. Worker w's update at clock k of a
/// slice is
///   at 2w           1: the slice's value there counts w's updates
///   at 2w + 1       k + 1: the value names which ones, for a worker that skips none
///   from kMixed on  numbers of many magnitudes, drawn from (table, slice, w, k, place): their sum
///                   depends on its order, and on every one of them having come to its own slice
constexpr std::uint32_t kMembers = 32;
constexpr std::uint32_t kMixed = 2 * kMembers;
constexpr std::uint32_t kSliceElements = kMixed + 4;

struct ToyJob {
  std::uint32_t tables = 2;
  std::uint32_t slices = 2;  // of each table
  std::int64_t clocks = 20;
  std::uint32_t workers = 3;
  Slack slack{1};                     // 0: BSP
  bool mean = false;                  // divide by the members instead of adding up
  std::int64_t checkpoint_every = 0;  // clocks; 0: none but those that are asked for
  // Policies beside the bound; those that do not fit the slack are never drawn.
  std::uint32_t backup_workers = 0;
  bool staleness_rate = false;
  float compensation = 0;  // strength; 0: none
  float compensation_decay = 0;
  std::int64_t most_slack = 0;  // above 0: the slack moves between `slack` and this
  std::int64_t interval = 1;    // clocks between two pushes of a worker
  bool elastic = false;         // what is pushed is added up, whatever `mean` says

  [[nodiscard]] PushSchedule schedule() const { return {interval, Clock(clocks)}; }
  /// Whether an update counts as it is, so that a slice's values say how many of whose it holds.
  [[nodiscard]] bool counts() const { return !mean && !staleness_rate && compensation == 0; }
};

[[nodiscard]] std::vector<TableSpec> toy_tables(const ToyJob& job);
[[nodiscard]] pb::Job toy_definition(const ToyJob& job);

/// One worker's update of one slice.
/// out  [kSliceElements]
void toy_update(TableId table, SliceId slice, WorkerId worker, Clock clock, std::span<float> out);

}  // namespace taut::sim
