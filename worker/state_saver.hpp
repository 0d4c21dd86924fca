#pragma once

#include <cstdint>
#include <future>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "common/types.hpp"
#include "proto/control.pb.h"
#include "worker/client/update_encoding.hpp"
#include "worker/engine/backend.hpp"
#include "worker/layers/net.hpp"

namespace taut::worker {

/// A net that carries state, and access to it. A worker has one for each device.
struct Carrier {
  Net* net;
  Backend* backend;
  Stream* stream;
};

/// A worker's state of its tables between two clocks.
struct TableState {
  Residuals residuals;                       // what compression has left out of its updates
  std::vector<std::vector<float>> own = {};  // ParameterCache::own_state()
};

/// A worker's part of checkpoints, which no other process has: the state that its net carries
/// between batches, and the state of its tables. Copied between two clocks, written while the next
/// one computes.
/// Thread    order(), part() and is_due_at(): any; at_clock(): the compute thread
class StateSaver {
 public:
  enum class Writes : std::uint8_t {
    kMeanwhile,  // on a thread, while the next clock computes
    kAtOnce,     // before at_clock() and order() return: without threads
  };
  explicit StateSaver(Writes writes = Writes::kMeanwhile) : writes_(writes) {}

  /// Sets the newest order; a repeated one changes nothing.
  void order(const pb::CheckpointOrder& order);
  /// Whether at_clock() would copy anything.
  [[nodiscard]] bool is_due_at(Clock clock) const;
  /// Training is just before `clock`, with nothing computed since `first`. Saves a part if one is
  /// due. REQUIRES: the nets are idle.
  void at_clock(Clock first, Clock clock, std::uint32_t slot, std::span<const Carrier> carriers,
                TableState tables);
  /// Training has finished: a due order and all later ones are written from this state.
  void at_end(Clock clock, std::uint32_t slot, std::span<const Carrier> carriers,
              TableState tables);
  /// The report for the coordinator.
  [[nodiscard]] pb::CheckpointPart part() const;

 private:
  /// A copy of the state on the host, valid from clock `first` to `clock`.
  struct Copy {
    Clock first;
    Clock clock;
    std::uint32_t slot = 0;
    std::vector<std::vector<float>> state;
    TableState tables;
  };
  void serve(Copy copy);
  void write(const pb::CheckpointOrder& order, const Copy& copy);
  void put(pb::CheckpointPart part);

  const Writes writes_;
  mutable std::mutex mutex_;  // guards order_, due_, end_ and part_
  pb::CheckpointOrder order_;
  bool due_ = false;
  std::optional<Copy> end_;
  std::mutex serving_;  // guards writing_
  pb::CheckpointPart part_;
  std::future<void> writing_;  // joined when the saver ends
};

/// Restores the nets' state for this share of the data from a checkpoint. Returns false if the
/// checkpoint has none, because the number of shares or devices, or the batch size, differs.
/// Errors    as CheckpointReader::open; io
[[nodiscard]] Result<bool> restore_state(const pb::WorkerJob& job,
                                         std::span<const Carrier> carriers);

/// What compression had left out of this share's updates when a checkpoint was taken, for each of
/// `tables` tables; all empty if the checkpoint has none, because the number of shares differs.
/// Errors    as CheckpointReader::open; io
[[nodiscard]] Result<Residuals> saved_residuals(const pb::WorkerJob& job, std::size_t tables);

/// The state of this share's own training when a checkpoint was taken; empty if the checkpoint has
/// none, or the number of shares differs.
/// Errors    as CheckpointReader::open; io
[[nodiscard]] Result<std::vector<std::vector<float>>> saved_own_state(const pb::WorkerJob& job);

}  // namespace taut::worker
