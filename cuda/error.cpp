#include "cuda/error.hpp"

#include <fmt/format.h>

namespace taut::cuda {

void fail(std::string_view call, std::string_view about, std::string_view detail) {
  int device = -1;
  if (cudaGetDevice(&device) != cudaSuccess) device = -1;
  const std::string where =
      device < 0 ? std::string("CUDA") : fmt::format("CUDA device {}", device);
  throw DeviceError(about.empty() ? fmt::format("{}: {}: {}", where, call, detail)
                                  : fmt::format("{}: {} ({}): {}", where, call, about, detail));
}

void fail(cudaError_t status, std::string_view call, std::string_view about) {
  // An error that does not stick to the context would otherwise be found again by the next check.
  (void)cudaGetLastError();
  fail(call, about, cudaGetErrorString(status));
}

void check_launch(std::string_view kernel, long long elements) {
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) [[unlikely]]
    fail(status, fmt::format("launch of {}", kernel), fmt::format("{} elements", elements));
}

}  // namespace taut::cuda
