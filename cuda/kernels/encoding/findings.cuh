#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/encoding/encode.hpp"
#include "cuda/kernels/launch.cuh"

// Whether all numbers that a kernel has checked are finite, for the kernels that follow it.
namespace taut::cuda {

/// One for each block that checked a part of the numbers.
struct Findings {
  std::uint32_t* at;  // 1: some number is not finite
  unsigned parts;     // at most kThreads
};
inline constexpr std::size_t kFindingsBytes = kThreads * sizeof(std::uint32_t);

/// For a check of `items` items, one per thread at a time.
/// memory  kFindingsBytes
inline Findings findings_for(std::int64_t items, void* memory) {
  const unsigned parts = blocks_for(items);
  return {static_cast<std::uint32_t*>(memory), parts < kThreads ? parts : kThreads};
}

/// Records what a block has found; called once by all its threads. The grid has `parts` blocks.
__device__ inline void note_findings(const Findings& findings, bool found) {
  const int any = __syncthreads_or(found ? 1 : 0);
  if (threadIdx.x == 0) findings.at[blockIdx.x] = any != 0 ? 1U : 0U;
}

/// Whether no block found a fault; called by all threads of a block.
__device__ inline bool all_finite(const Findings& findings) {
  const bool found = threadIdx.x < findings.parts && findings.at[threadIdx.x] != 0;
  return __syncthreads_or(found ? 1 : 0) == 0;
}

/// Checks the sums of a slice's values with its residual, which is the start of its state.
/// memory  kFindingsBytes
Findings look_for_faults(cudaStream_t stream, const EncodedSlice& slice, void* memory);
/// Also sets the residual to those sums, if all of them are finite.
Findings add_up(cudaStream_t stream, const EncodedSlice& slice, void* memory);

}  // namespace taut::cuda
