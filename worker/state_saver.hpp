#pragma once

#include <cstdint>
#include <future>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "common/types.hpp"
#include "proto/control.pb.h"
#include "worker/backend/backend.hpp"
#include "worker/layers/net.hpp"

namespace taut::worker {

/// A net that carries state, and the way to it. A worker has one for each of its devices.
struct Carrier {
  Net* net;
  Backend* backend;
  Stream* stream;
};

/// A worker's part of checkpoints: the state that its net carries from batch to batch, which nobody
/// else knows. Copied between two clocks, written while the next one computes.
/// Thread    order() and part(): any; at_clock(): the compute thread
class StateSaver {
 public:
  /// The newest order; one that was heard of before changes nothing.
  void order(const pb::CheckpointOrder& order);
  /// Where training stands: before `clock`, with nothing computed since `first`; the nets are not at
  /// work.
  void at_clock(Clock first, Clock clock, std::uint32_t slot, std::span<const Carrier> carriers);
  /// Training is through: what is ordered from now on is written of this state.
  void at_end(Clock clock, std::uint32_t slot, std::span<const Carrier> carriers);
  /// What the coordinator is told.
  [[nodiscard]] pb::CheckpointPart part() const;

 private:
  /// The state as it stands from one clock to another, on the host.
  struct Copy {
    Clock first;
    Clock clock;
    std::uint32_t slot = 0;
    std::vector<std::vector<float>> state;
  };
  [[nodiscard]] bool is_due_at(Clock clock) const;
  void serve(Copy copy);
  void write(const pb::CheckpointOrder& order, const Copy& copy);
  void put(pb::CheckpointPart part);

  mutable std::mutex mutex_;  // guards order_, due_, end_ and part_
  pb::CheckpointOrder order_;
  bool due_ = false;
  std::optional<Copy> end_;
  std::mutex serving_;  // guards writing_
  pb::CheckpointPart part_;
  std::future<void> writing_;  // waits for it when the saver ends
};

/// Gives the nets the state that a checkpoint has of this share of the data. Returns whether it had:
/// one of another number of shares or devices, or of another batch size, has none.
/// Errors    as CheckpointReader::open; io
[[nodiscard]] Result<bool> restore_state(const pb::WorkerJob& job,
                                         std::span<const Carrier> carriers);

}  // namespace taut::worker
