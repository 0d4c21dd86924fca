#include "tests/twin/kernels/start_kernel.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "tests/twin/kernels/block.hpp"
#include "tests/twin/runtime/call.hpp"
#include "tests/twin/runtime/stream.hpp"

namespace taut::twin {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxBlocksX = 65535;        // y and z of a grid
constexpr unsigned kMaxBlocksYz = 2147483647;  // x
constexpr std::size_t kMaxParameters = 32764;  // bytes, from CUDA 12.1 and Volta on

cudaError_t status_of(const KernelLaunch& launch, const CUstream_st& stream) {
  const dim3& grid = launch.grid;
  const bool is_empty = grid.x == 0 || grid.y == 0 || grid.z == 0 || launch.threads == 0;
  if (is_empty || grid.x > kMaxBlocksYz || grid.y > kMaxBlocksX || grid.z > kMaxBlocksX ||
      launch.threads > kMaxThreads) {
    return cudaErrorInvalidConfiguration;
  }
  if (launch.parameter_bytes > kMaxParameters) return cudaErrorInvalidValue;
  // A kernel runs on its stream's device, which has to be the thread's.
  return stream.device == current_device() ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

}  // namespace

void start_kernel(const KernelLaunch& launch, std::function<void()> body) {
  const Lock lock;
  CUstream_st& stream = stream_of(launch.name, launch.stream);
  if (enter("cudaLaunchKernel", stream.device)) return;
  if (answer(status_of(launch, stream)) != cudaSuccess) return;
  const auto run = [launch, body = std::move(body)] {
    run_blocks(launch.name, launch.grid, launch.threads, random_number("kernels", ~0ULL), body);
  };
  (void)answer(append(stream, {.what = fmt::format("kernel {}", launch.name),
                               .device = stream.device,
                               .run = run,
                               .kind = TaskKind::kKernel,
                               .amount = launch.elements}));
}

}  // namespace taut::twin
