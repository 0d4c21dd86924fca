#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <string>
#include <string_view>

#include "common/device_error.hpp"

// Every call into CUDA, cuDNN and cuBLASLt, and every launch, is checked by one of these. A failure
// is a DeviceError that names the device, the call, its subject, and the library's message.
namespace taut::cuda {

/// "CUDA device 0: cudaMemcpyAsync (4096 bytes): out of memory"
[[noreturn]] void fail(std::string_view call, std::string_view about, std::string_view detail);

[[noreturn]] void fail(cudaError_t status, std::string_view call, std::string_view about);
[[noreturn]] void fail(cudnnStatus_t status, std::string_view call, std::string_view about);
[[noreturn]] void fail(cublasStatus_t status, std::string_view call, std::string_view about);

/// about  the shape or size of the call; empty if the call's name is enough
inline void check(cudaError_t status, std::string_view call, std::string_view about = {}) {
  if (status != cudaSuccess) [[unlikely]]
    fail(status, call, about);
}
inline void check(cudnnStatus_t status, std::string_view call, std::string_view about = {}) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    fail(status, call, about);
}
inline void check(cublasStatus_t status, std::string_view call, std::string_view about = {}) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail(status, call, about);
}

/// After a kernel's launch. Names the kernel and its number of elements.
void check_launch(std::string_view kernel, long long elements);

}  // namespace taut::cuda
