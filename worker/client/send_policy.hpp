#pragma once

#include <cstdint>

#include "common/types.hpp"

namespace taut {

/// Which ready update is sent first.
enum class SendOrder : std::uint8_t {
  /// That of the table that the next forward pass reads first: it is ready last and needed first.
  /// Source: Jayarajan et al., "Priority-based Parameter Propagation for Distributed DNN Training",
  /// MLSys 2019, section 3
  kFrontFirst,
  kAsReady,
};

/// How updates are sent.
struct SendPolicy {
  SendOrder order = SendOrder::kFrontFirst;
  /// Limit on unacknowledged payload bytes to one shard. Bytes in sockets keep their order; updates
  /// that still wait here can be overtaken. One update may always be in flight.
  Bytes window{4UL << 20U};
  /// The window for a shard that shares memory: no bytes are queued that an update could overtake,
  /// and a shard that always has work need not be woken.
  Bytes shared_window{64UL << 20U};
};

}  // namespace taut
