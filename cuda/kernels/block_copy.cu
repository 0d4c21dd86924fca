#include "cuda/kernels/block_copy.hpp"

#include <algorithm>

#include "common/check.hpp"
#include "cuda/kernels/launch.cuh"

namespace taut::cuda {
namespace {

struct Blocks {
  BlockCopy at[kMaxBlockCopies];
};

/// One row of the grid for each block.
__global__ void __launch_bounds__(kThreads) copy_blocks_kernel(Blocks blocks) {
  const BlockCopy& block = blocks.at[blockIdx.y];
  for (std::int64_t i = first_index(); i < block.count; i += index_step()) {
    block.to[i] = block.from[i];
  }
}

}  // namespace

void copy_blocks(cudaStream_t stream, std::span<const BlockCopy> blocks) {
  TAUT_CHECK(blocks.size() <= kMaxBlockCopies, "more blocks than one launch copies");
  Blocks all{};
  std::int64_t longest = 0;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    all.at[i] = blocks[i];
    longest = std::max(longest, blocks[i].count);
    total += blocks[i].count;
  }
  if (longest == 0) return;
  const dim3 grid(blocks_for(longest), static_cast<unsigned>(blocks.size()));
  launch({stream, "copy_blocks", total, grid}, copy_blocks_kernel, all);
}

}  // namespace taut::cuda
