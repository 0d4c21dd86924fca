#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/encoding/encode.hpp"
#include "cuda/kernels/launch.cuh"

// Whether all numbers that a kernel has looked at are finite, for the kernels behind it.
namespace taut::cuda {

/// By the blocks that looked at parts of them.
struct Findings {
  std::uint32_t* at;  // 1: some number is not finite
  unsigned parts;     // at most kThreads
};
inline constexpr std::size_t kFindingsBytes = kThreads * sizeof(std::uint32_t);

/// Of so many items, one a thread at a time.
/// memory  kFindingsBytes
inline Findings findings_for(std::int64_t items, void* memory) {
  const unsigned parts = blocks_for(items);
  return {static_cast<std::uint32_t*>(memory), parts < kThreads ? parts : kThreads};
}

/// What a block has found; called by all its threads, once. The grid has `parts` blocks.
__device__ inline void note_findings(const Findings& findings, bool found) {
  const int any = __syncthreads_or(found ? 1 : 0);
  if (threadIdx.x == 0) findings.at[blockIdx.x] = any != 0 ? 1U : 0U;
}

/// Called by all threads of a block.
__device__ inline bool all_finite(const Findings& findings) {
  const bool found = threadIdx.x < findings.parts && findings.at[threadIdx.x] != 0;
  return __syncthreads_or(found ? 1 : 0) == 0;
}

/// Looks at the sums of a slice's values with its residual, which is the start of its state.
/// memory  kFindingsBytes
Findings look_for_faults(cudaStream_t stream, const EncodedSlice& slice, void* memory);
/// And then makes the residual those sums, if they are finite.
Findings add_up(cudaStream_t stream, const EncodedSlice& slice, void* memory);

}  // namespace taut::cuda
