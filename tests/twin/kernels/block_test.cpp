#include "tests/twin/kernels/block.hpp"

#include <cuda_runtime_api.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/twin/kernels/device_code.hpp"
#include "tests/twin/kernels/shared_memory.hpp"
#include "tests/twin/kernels/start_kernel.hpp"
#include "tests/twin/libraries/broken_rule.hpp"
#include "tests/twin/runtime/seed.hpp"

// What threads of a block ask of each other, in kernels that are host code.
namespace taut::twin {
namespace {

constexpr unsigned kAll = 0xffffffffU;

void run(unsigned threads, const std::function<void()>& body, dim3 grid = dim3(1)) {
  start_kernel({.name = "test", .grid = grid, .threads = threads}, body);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
}

}  // namespace

TEST_CASE("every thread of every block runs once, in an order that the seed decides", "[twin]") {
  std::set<std::vector<unsigned>> orders;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    set_seed(seed);
    std::vector<unsigned> order;
    run(
        70, [&] { order.push_back(blockIdx.x * 70 + threadIdx.x); }, dim3(6));
    CHECK(std::set<unsigned>(order.begin(), order.end()).size() == 420);
    CHECK(order.size() == 420);
    orders.insert(order);
  }
  CHECK(orders.size() == 5);
}

TEST_CASE("shuffles and votes follow the documentation", "[twin]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    set_seed(seed);
    run(64, [] {
      const unsigned lane = threadIdx.x % 32;
      const auto own = static_cast<float>(threadIdx.x);
      CHECK(__shfl_down_sync(kAll, own, 5U) == (lane + 5 < 32 ? own + 5 : own));
      CHECK(__shfl_xor_sync(kAll, static_cast<double>(own), 3) ==
            static_cast<double>(threadIdx.x ^ 3U));
      CHECK(__ballot_sync(kAll, lane == 7 ? 1 : 0) == 1U << 7U);
      CHECK(__any_sync(kAll, 0) == 0);
      CHECK(__syncthreads_or(threadIdx.x == 40 ? 1 : 0) == 1);
    });
  }
}

TEST_CASE("a barrier that some threads of a block skip is found", "[twin]") {
  REQUIRE_BROKEN("block.barrier", {
    run(64, [] {
      if (threadIdx.x < 40) __syncthreads();
    });
  });
}

TEST_CASE("threads that wait at two barriers are found", "[twin]") {
  // Outside the macro, in which all places are one.
  const auto two_barriers = [] {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  };
  REQUIRE_BROKEN("block.barrier", { run(64, two_barriers); });
}

TEST_CASE("a shuffle whose named lanes have exited is found", "[twin]") {
  REQUIRE_BROKEN("warp.lanes-missing", {
    run(32, [] {
      if (threadIdx.x == 9) return;
      (void)__shfl_xor_sync(kAll, 1.0F, 1);
    });
  });
}

TEST_CASE("a shuffle from a lane that it does not name is found", "[twin]") {
  REQUIRE_BROKEN("warp.shuffle-source", {
    run(32, [] {
      if (threadIdx.x < 16) (void)__shfl_xor_sync(0xffffU, 1.0F, 16);
    });
  });
}

TEST_CASE("a lane that calls without naming itself is found", "[twin]") {
  REQUIRE_BROKEN("warp.own-lane", { run(32, [] { (void)__ballot_sync(0xfffeU, 1); }); });
}

TEST_CASE("lanes that are in different calls are found", "[twin]") {
  const auto two_votes = [] {
    if (threadIdx.x < 16) {
      (void)__ballot_sync(kAll, 1);
    } else {
      (void)__ballot_sync(kAll, 1);
    }
  };
  REQUIRE_BROKEN("warp.one-call", { run(32, two_votes); });
}

TEST_CASE("shared memory is fresh for each block and fenced", "[twin]") {
  static char place = 0;
  run(
      1,
      [] {
        auto* const at = static_cast<unsigned*>(shared_memory(&place, 16, 4));
        CHECK(at[0] == 0xffffffffU);
        at[0] = blockIdx.x;
      },
      dim3(3));
  REQUIRE_BROKEN("shared.bounds",
                 { run(1, [] { static_cast<unsigned*>(shared_memory(&place, 16, 4))[4] = 1; }); });
}

TEST_CASE("a launch of an impossible shape is refused", "[twin]") {
  start_kernel({.name = "test", .threads = 1025}, [] {});
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  start_kernel({.name = "test", .grid = dim3(1, 65536), .threads = 32}, [] {});
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  start_kernel({.name = "test", .grid = dim3(0), .threads = 32}, [] {});
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  start_kernel({.name = "test", .threads = 32, .parameter_bytes = 32764}, [] {});
  CHECK(cudaGetLastError() == cudaSuccess);
  start_kernel({.name = "test", .threads = 32, .parameter_bytes = 32765}, [] {});
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

}  // namespace taut::twin
