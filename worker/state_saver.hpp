#pragma once

#include <cstdint>
#include <future>
#include <mutex>
#include <optional>
#include <vector>

#include "common/types.hpp"
#include "proto/control.pb.h"
#include "worker/backend/backend.hpp"
#include "worker/layers/net.hpp"

namespace taut::worker {

/// A worker's part of checkpoints: the state that its net carries from batch to batch, which nobody
/// else knows. Copied between two clocks, written while the next one computes.
/// Thread    order() and part(): any; at_clock(): the compute thread
class StateSaver {
 public:
  /// The newest order; one that was heard of before changes nothing.
  void order(const pb::CheckpointOrder& order);
  /// Where training stands: before `clock`, with nothing computed since `first`; the net is not at
  /// work.
  void at_clock(Clock first, Clock clock, std::uint32_t slot, Net& net, Backend& backend,
                Stream& stream);
  /// Training is through: what is ordered from now on is written of this state.
  void at_end(Clock clock, std::uint32_t slot, Net& net, Backend& backend, Stream& stream);
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

/// Gives a net the state that a checkpoint has of this share of the data. Returns whether it had:
/// one of another number of shares, or of another batch size, has none.
/// Errors    as CheckpointReader::open; io
[[nodiscard]] Result<bool> restore_state(const pb::WorkerJob& job, Net& net, Backend& backend,
                                         Stream& stream);

}  // namespace taut::worker
