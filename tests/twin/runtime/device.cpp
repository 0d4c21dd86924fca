#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/twin/runtime/call.hpp"
#include "tests/twin/runtime/device_memory.hpp"
#include "tests/twin/runtime/scheduler.hpp"
#include "tests/twin/runtime/stream.hpp"

// Devices, and errors of threads and devices.
namespace taut::twin {
namespace {

thread_local int current = 0;

}  // namespace

int current_device() {
  return current;
}

int device_count() {
  static const int count = [] {
    const char* const text = std::getenv("TAUTLINE_TWIN_DEVICES");
    return text == nullptr ? 1 : std::clamp(std::atoi(text), 1, kMaxDevices);
  }();
  return count;
}

}  // namespace taut::twin

using namespace taut::twin;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const Lock lock;
  if (const auto refused = enter("cudaGetDeviceCount", 0, cudaErrorNoDevice)) return *refused;
  *count = device_count();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  const Lock lock;
  *device = current;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const Lock lock;
  if (device < 0 || device >= device_count()) return answer(cudaErrorInvalidDevice);
  // The thread's device even where that has failed.
  current = device;
  if (const auto refused = enter("cudaSetDevice", device, cudaErrorDevicesUnavailable)) {
    return *refused;
  }
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Lock lock;
  if (device < 0 || device >= device_count()) return answer(cudaErrorInvalidDevice);
  if (const auto refused = enter("cudaGetDeviceProperties", device)) return *refused;
  *properties = cudaDeviceProp{};
  std::strncpy(properties->name, "device twin (CPU, no GPU)", sizeof properties->name - 1);
  properties->major = 9;
  properties->minor = 0;
  properties->totalGlobalMem = memory_of_device();
  properties->multiProcessorCount = 4;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const Lock lock;
  const cudaError_t found = last_error();
  clear_last_error();
  // A sticky error is said by every call, this one too.
  const cudaError_t sticky = device_status(current);
  return sticky != cudaSuccess ? sticky : found;
}

cudaError_t cudaDeviceSynchronize() {
  Lock lock;
  if (const auto refused = enter("cudaDeviceSynchronize", current)) return *refused;
  // A device of which any stream is captured can't be waited for, by any thread.
  if (invalidate_captures_of(current)) return answer(cudaErrorStreamCaptureUnsupported);
  wait_for_device(lock, current);
  return answer(device_status(current));
}

const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorDevicesUnavailable:
      return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorNotPermitted:
      return "operation not permitted";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorHostMemoryAlreadyRegistered:
      return "part or all of the requested memory range is already mapped";
    case cudaErrorHostMemoryNotRegistered:
      return "pointer does not correspond to a registered memory region";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default: {
      thread_local char text[32];
      std::snprintf(text, sizeof text, "CUDA error %d", static_cast<int>(status));
      return text;
    }
  }
}
}
