#pragma once

#include <array>
#include <cstdint>

#include "tests/twin/kernels/block.hpp"

namespace taut::twin {

inline constexpr unsigned kLanes = 32;

/// Where one thread of a block is.
struct Lane {
  enum State : std::uint8_t { kReady, kInWarpCall, kAtBarrier, kExited };
  State state = kReady;
  BlockCall call;            // what it waits in
  std::uint64_t result = 0;  // what it gets
};

/// Ends every call of the warp's lanes that all the lanes it names have made; false: there was
/// none. Reports a call that can't end: lanes that have exited or make another call, a lane that is
/// not in its own mask, a shuffle from a lane that takes no part.
/// lanes  of the warp, `count` of them
bool end_warp_calls(Lane* lanes, unsigned count);

}  // namespace taut::twin
