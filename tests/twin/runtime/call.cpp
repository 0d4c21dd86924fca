#include "tests/twin/runtime/call.hpp"

#include <array>

#include "tests/twin/runtime/device_memory.hpp"
#include "tests/twin/runtime/memory_faults.hpp"
#include "tests/twin/stream_queue.hpp"

namespace taut::twin {
namespace {

thread_local cudaError_t last = cudaSuccess;
std::array<cudaError_t, kMaxDevices> sticky{};  // cudaSuccess is 0

}  // namespace

cudaError_t answer(cudaError_t status) {
  if (status != cudaSuccess) last = status;
  return status;
}

cudaError_t last_error() {
  return last;
}

void clear_last_error() {
  last = cudaSuccess;
}

void fail_device(int device, cudaError_t status) {
  const Lock lock;
  cudaError_t& own = sticky.at(static_cast<std::size_t>(device));
  if (own == cudaSuccess) own = status;
  runtime_changed().notify_all();
}

cudaError_t device_status(int device) {
  const Lock lock;
  return sticky.at(static_cast<std::size_t>(device));
}

std::optional<cudaError_t> enter(const char* call, int device, cudaError_t refused) {
  watch_faults();
  switch (next_fault(call).kind) {
    case Fault::kNone:
      break;
    case Fault::kRefused:
      return answer(refused);
    case Fault::kOutOfMemory:
      return answer(refused == cudaErrorNotPermitted ? refused : cudaErrorMemoryAllocation);
    case Fault::kDeviceLost:
      fail_device(device, cudaErrorLaunchFailure);
      break;
  }
  if (device_status(device) != cudaSuccess) return answer(device_status(device));
  return std::nullopt;
}

}  // namespace taut::twin
