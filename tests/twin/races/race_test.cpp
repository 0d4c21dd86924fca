// Compiled, as the kernels of its program, with the compiler's calls at each access of memory.
#include <cuda_runtime_api.h>

#include <functional>

#include "tests/support/catch.hpp"
#include "tests/twin/include/cuda/kernels/start.cuh"
#include "tests/twin/libraries/broken_rule.hpp"

namespace taut::twin {
namespace {

void run(unsigned threads, const std::function<void()>& body) {
  start_kernel({.name = "test", .grid = dim3(2), .threads = threads}, body);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
}

using Row = float[64];

/// Each thread reads what its neighbour wrote.
template <bool kHasBarrier>
void shift() {
  TAUT_SHARED(Row, row);
  row[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (kHasBarrier) __syncthreads();
  const float next = row[(threadIdx.x + 1) % 64];
  if (next < 0) __syncthreads();
}

/// Written again while others may still read.
void overwrite() {
  TAUT_SHARED(Row, row);
  row[threadIdx.x] = 1;
  __syncthreads();
  const float next = row[(threadIdx.x + 1) % 64];
  row[threadIdx.x] = next + 1;
}

using Counts = unsigned[2];

/// All threads count, and one reads the result.
template <bool kHasBarrier>
void count() {
  TAUT_SHARED(Counts, counts);
  if (threadIdx.x < 2) counts[threadIdx.x] = 0;
  __syncthreads();
  (void)atomicAdd(&counts[threadIdx.x % 2], 1U);
  if (kHasBarrier) __syncthreads();
  if (threadIdx.x == 0 && counts[0] + counts[1] != 64) __syncthreads();
}

}  // namespace

TEST_CASE("a read of what another thread wrote since the last barrier is a race", "[twin]") {
  run(64, shift<true>);
  REQUIRE_BROKEN("shared.race", { run(64, shift<false>); });
}

TEST_CASE("a write to what another thread read since the last barrier is a race", "[twin]") {
  REQUIRE_BROKEN("race_test.cpp:3", { run(64, overwrite); });
}

TEST_CASE("atomic additions race with other accesses and not with each other", "[twin]") {
  run(64, count<true>);
  REQUIRE_BROKEN("shared.race", { run(64, count<false>); });
}

}  // namespace taut::twin
