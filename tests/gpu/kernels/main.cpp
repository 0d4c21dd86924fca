#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "tests/support/catch_runner.hpp"

// Without the backend, cuDNN and cuBLASLt, so that a sanitizer of devices sees kernels alone.
int main(int argc, char** argv) {
  constexpr int kSkipped = 77;  // what CTest takes for "skipped"
  const bool lists = argc > 1 && std::strncmp(argv[1], "--list", 6) == 0;
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (!lists && (status != cudaSuccess || devices == 0)) {
    std::printf("skipped: no CUDA device: %s\n", cudaGetErrorString(status));
    return kSkipped;
  }
  return taut::test::run_cases(argc, argv);
}
