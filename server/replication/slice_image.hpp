#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/net/buffer_pool.hpp"
#include "common/ssp/slice_layout.hpp"
#include "common/ssp/table.hpp"
#include "common/types.hpp"
#include "proto/slice_images.hpp"
#include "server/tables/row_store.hpp"

namespace taut::server {

/// A server that keeps parts of coded checkpoints on its disk.
struct PartPlace {
  std::string name;
  std::string address;
};

/// A checkpoint to which a shard must contribute; number 0: none.
struct CaptureOrder {
  std::uint64_t number = 0;
  Clock clock;
  std::string folder;
  bool is_incremental = false;
  std::string base;  // for an incremental one: the checkpoint before it; empty if there is none
  // For a coded one; data 0: whole files are written.
  std::uint32_t data = 0;
  std::uint32_t parity = 0;
  std::uint64_t block_bytes = 0;
  std::vector<PartPlace> holders;
  std::uint64_t token = 0;  // of the job's submission
};

/// How far the newest image of a slice that every backup of its shard has reaches.
struct KeptImage {
  Clock version = Clock::never();  // V
  std::int64_t applications = std::numeric_limits<std::int64_t>::max();
  friend bool operator==(const KeptImage&, const KeptImage&) = default;
};

/// A slice's state at one moment. The slice shares the memory and does not write to
/// it until the image is destroyed.
struct SliceImage {
  Slice place;
  Clock version;                  // V
  std::int64_t applications = 0;  // of the update rule, so far
  /// For each member, the first clock whose update is not in the values; all below it are.
  std::map<WorkerId, Clock> done;
  /// For a slice that is taken over: V continues from `version`, which does not follow from `done`.
  bool is_replica = false;
  Buffer values;               // [count] float32
  std::vector<Buffer> states;  // what the rule and policies keep, in the shape of the values
  RowImage rows;               // for a table that is kept by rows, in place of both
  /// For a slice that is taken over: the previous primary's updates that are not in the values, in
  /// the order in which they counted there.
  std::vector<LoggedUpdate> logged;
};

/// All of a shard's slices for one order, each in its state when its V reached the order's clock.
struct ShardCapture {
  JobId job;
  ShardId shard;
  CaptureOrder order;
  bool missed =
      false;  // a slice had passed the clock when the order arrived; the rest is then empty
  std::vector<TableSpec> tables;
  std::vector<SliceImage> slices;
  std::map<ShardId, std::uint64_t> terms;  // of the shards' primaries
  /// Becomes true when the order is replaced or the job is over: writing must stop.
  /// Thread    any
  std::shared_ptr<std::atomic<bool>> withdrawn = std::make_shared<std::atomic<bool>>(false);
};

/// The initial state of a shard's slices of a resumed job, by SliceLayout::index_of; `done` names
/// the members of the new job.
struct ShardImages {
  std::vector<TableSpec> tables;  // as the checkpoint has them
  std::map<std::size_t, SliceImage> slices;
};

}  // namespace taut::server
