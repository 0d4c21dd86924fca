#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <source_location>

// A kernel's blocks, run one after another in seeded order. Warps do not run in lockstep: one that
// is chosen at random runs as far as it can.
namespace taut::twin {

/// What a thread asks of its warp or its block; it waits until all who must take part have asked.
struct BlockCall {
  enum Kind : std::uint8_t { kBarrier, kBarrierOr, kShuffleDown, kShuffleXor, kBallot };
  Kind kind = kBarrier;
  std::source_location place;
  unsigned mask = 0;      // of a warp's calls
  unsigned argument = 0;  // a shuffle's distance
  std::uint64_t bits = 0;
};

/// Called by a kernel's thread.
std::uint64_t call_block(const BlockCall& call);

/// Runs all blocks of a kernel; body is what each thread runs.
/// seed    decides the order of blocks, warps and lanes
/// Thread  one at a time
void run_blocks(const char* kernel, dim3 grid, unsigned threads, std::uint64_t seed,
                const std::function<void()>& body);
/// "kernel fill, block (3,0,0), thread 17"; empty while none runs.
[[nodiscard]] const char* running_thread();

}  // namespace taut::twin
