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
  /// Rejected since the shard started, to be sent again: while an epoch changes, or out of order.
  std::uint64_t postponed_updates = 0;
  std::uint64_t rows = 0;          // that buckets of tables by rows keep
  std::uint64_t dropped_rows = 0;  // by buckets that are here

  /// Takes a slice out of the counts.
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

/// Recounts a slice when it is destroyed: it exists while the slice is changed.
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
