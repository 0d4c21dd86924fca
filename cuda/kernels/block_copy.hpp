#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace taut::cuda {

/// `count` elements that lie behind each other here and there.
struct BlockCopy {
  const float* from = nullptr;
  float* to = nullptr;
  std::int64_t count = 0;
};

inline constexpr std::size_t kMostBlockCopies = 16;

/// All of them in one launch; none may overlap another's target. REQUIRES: at most
/// kMostBlockCopies.
void copy_blocks(cudaStream_t stream, std::span<const BlockCopy> blocks);

}  // namespace taut::cuda
