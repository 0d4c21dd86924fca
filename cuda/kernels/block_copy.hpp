#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace taut::cuda {

/// `count` contiguous elements in the source and in the target.
struct BlockCopy {
  const float* from = nullptr;
  float* to = nullptr;
  std::int64_t count = 0;
};

inline constexpr std::size_t kMaxBlockCopies = 16;

/// Copies all of them in one launch; none may overlap another's target. REQUIRES: at most
/// kMaxBlockCopies.
void copy_blocks(cudaStream_t stream, std::span<const BlockCopy> blocks);

}  // namespace taut::cuda
