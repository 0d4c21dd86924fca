#pragma once

#include <cstdint>

#include "common/types.hpp"

namespace taut {

/// Which of the updates that are ready goes out first.
enum class SendOrder : std::uint8_t {
  /// That of the table which the next forward pass reads first: it is ready last, and waited for
  /// first. Source: Jayarajan et al., "Priority-based Parameter Propagation for Distributed DNN
  /// Training", MLSys 2019, section 3
  kFrontFirst,
  kAsReady,
};

/// How updates leave.
struct SendPolicy {
  SendOrder order = SendOrder::kFrontFirst;
  /// Payload bytes under way to one shard, not yet acknowledged. What is in sockets has its place
  /// in the queue; what still waits here can be overtaken. One update may always be under way.
  Bytes window{4UL << 20U};
  /// The window for a shard that shares memory: there is no queue of bytes to overtake, and a shard
  /// that always has work need not be woken.
  Bytes shared_window{64UL << 20U};
};

}  // namespace taut
