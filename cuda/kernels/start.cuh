#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// The parts of a kernel that only nvcc can express. The device twin has a file of the same name
// that is found before this one, and with it the same kernels are compiled as host C++
// (tests/twin).

/// Memory that a block's threads share. Not initialized: its type has no member initializers.
#define TAUT_SHARED(Type, name) __shared__ Type name

namespace taut::cuda {

/// Starts a kernel on a stream; errors are left for cudaGetLastError().
/// name, elements  for reports
template <class... Parameters, class... Arguments>
void start(const char* /*name*/, std::int64_t /*elements*/, void (*kernel)(Parameters...),
           dim3 grid, unsigned threads, cudaStream_t stream, const Arguments&... arguments) {
  kernel<<<grid, threads, 0, stream>>>(arguments...);
}

}  // namespace taut::cuda
