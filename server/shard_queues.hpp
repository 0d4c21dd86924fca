#pragma once

#include <cstdint>

#include "server/slice_state.hpp"

namespace taut::server {

/// The waiting reads and updates at a shard, and the rows that it keeps, over the slices of all its
/// jobs.
struct ShardQueues {
  std::uint64_t parked_reads = 0;  // until the slack allows them
  std::uint64_t held_updates = 0;  // accepted, until they may be applied
  std::uint64_t held_bytes = 0;    // the payload of these
  /// Updates rejected since the shard started, which must be sent again: e.g. during an epoch
  /// change, or out of order.
  std::uint64_t postponed_updates = 0;
  std::uint64_t rows = 0;          // kept in buckets of tables by rows
  std::uint64_t dropped_rows = 0;  // by these buckets

  /// Subtracts a slice from the counts.
  void forget(const SliceState& slice) {
    parked_reads -= slice.parked();
    held_updates -= slice.held();
    held_bytes -= slice.held_bytes();
    if (slice.rows() == nullptr) return;
    rows -= slice.rows()->rows();
    dropped_rows -= slice.rows()->dropped();
  }
  void add(const SliceState& slice) {
    parked_reads += slice.parked();
    held_updates += slice.held();
    held_bytes += slice.held_bytes();
    if (slice.rows() == nullptr) return;
    rows += slice.rows()->rows();
    dropped_rows += slice.rows()->dropped();
  }
};

/// Keeps the counts right while a slice is changed: subtracts the slice when created and adds it
/// again when destroyed.
class QueueCount {
 public:
  QueueCount(ShardQueues& queues, const SliceState& slice) : queues_(queues), slice_(slice) {
    queues_.forget(slice_);
  }
  ~QueueCount() { queues_.add(slice_); }
  QueueCount(const QueueCount&) = delete;
  QueueCount& operator=(const QueueCount&) = delete;

 private:
  ShardQueues& queues_;
  const SliceState& slice_;
};

}  // namespace taut::server
