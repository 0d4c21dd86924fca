#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/engine/backend.hpp"

// Small trainings in which each thing that orders work on a device takes part.
namespace taut::twin::test {

/// What a training left at the shards, table by table.
using Tables = std::vector<std::vector<float>>;

struct Scenario {
  const char* name = "";
  /// Of one worker: several devices exchange their gradients.
  int devices = 1;
  const char* net = "";
  bool deterministic = true;
  bool nccl = false;        // else copies between devices
  bool is_planned = false;  // within a budget below what the net needs at once
  bool is_local = false;    // without a server
  int batches = 1;          // of a clock
  Precision precision = Precision::kFloat32;
  float keep = 0;  // of all but the smallest updates, at random places; 0: all of them
};

/// Those that scripts/twin runs under each seed.
[[nodiscard]] std::span<const Scenario> scenarios();

struct Run {
  bool on_cpu = false;  // for what the device's should come near to
  bool graphs = true;
  bool separate_memory = false;
  std::int64_t clocks = 9;  // recordings are replayed by then
};

/// Trains, and returns what the shards have at the end.
/// at_end  what they have, whether the training ended well or not; may be nullptr
/// Errors  those of the trainer, and of the device once the shards serve; throws DeviceError before
[[nodiscard]] Result<Tables> train(const Scenario& scenario, const Run& run,
                                   Tables* at_end = nullptr);

/// What no training does: copies around the borders of pinned memory, memory that is unpinned while
/// copies of it are queued, a label that is no class.
/// Errors  what was found instead of what was expected; empty: nothing
[[nodiscard]] std::string check_borders();

}  // namespace taut::twin::test
