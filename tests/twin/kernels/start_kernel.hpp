#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace taut::twin {

/// A kernel's launch, as the runtime gets it.
struct KernelLaunch {
  const char* name = "";
  dim3 grid{1};
  unsigned threads = 1;
  cudaStream_t stream = nullptr;
  std::size_t parameter_bytes = 0;
  std::uint64_t elements = 0;  // for counts
};

/// Queues a kernel; errors are left for cudaGetLastError(), as <<<>>> leaves them.
/// body  what each thread runs
void start_kernel(const KernelLaunch& launch, std::function<void()> body);

}  // namespace taut::twin
