#include "cuda/system_driver.hpp"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

namespace taut::cuda {
namespace {

/// Clears the status of the last call, so that it is reported once.
Error refused(cudaError_t status, const char* call) {
  (void)cudaGetLastError();
  const char* hint = "";
  if (status == cudaErrorDevicesUnavailable) {
    hint = ": another process uses the device exclusively, or its use is not permitted";
  } else if (status == cudaErrorMemoryAllocation) {
    hint = ": other processes have taken its memory";
  }
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("{}: {}{}", call, cudaGetErrorString(status), hint));
}

}  // namespace

int SystemDriver::driver_version() const {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

int SystemDriver::runtime_version() const {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : CUDART_VERSION;
}

std::size_t SystemDriver::cudnn_loaded() const {
  return cudnnGetVersion();
}

std::size_t SystemDriver::cudnn_built() const {
  return CUDNN_VERSION;
}

Result<int> SystemDriver::device_count() const {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice) return 0;
  if (status != cudaSuccess) return refused(status, "cudaGetDeviceCount");
  return count;
}

Result<DeviceFacts> SystemDriver::facts(int index) const {
  cudaDeviceProp properties{};
  const cudaError_t status = cudaGetDeviceProperties(&properties, index);
  if (status != cudaSuccess) return refused(status, "cudaGetDeviceProperties");
  DeviceFacts facts;
  facts.name = static_cast<const char*>(properties.name);
  facts.major = properties.major;
  facts.minor = properties.minor;
  facts.memory = Bytes(properties.totalGlobalMem);
  facts.multiprocessors = properties.multiProcessorCount;
  return facts;
}

Result<Bytes> SystemDriver::open(int index) const {
  cudaError_t status = cudaSetDevice(index);
  if (status != cudaSuccess) return refused(status, "cudaSetDevice");
  std::size_t free = 0;
  std::size_t total = 0;
  // The first call that needs a context creates it.
  status = cudaMemGetInfo(&free, &total);
  if (status != cudaSuccess) return refused(status, "cudaMemGetInfo");
  return Bytes(free);
}

}  // namespace taut::cuda
