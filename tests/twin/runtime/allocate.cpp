#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <utility>

#include "tests/twin/runtime/call.hpp"
#include "tests/twin/runtime/device_memory.hpp"
#include "tests/twin/runtime/scheduler.hpp"
#include "tests/twin/runtime/stream.hpp"

// Device memory as the runtime's calls and the twin's libraries ask for it.
namespace taut::twin {

void require_device_memory(std::string_view call, std::string_view operand, int device,
                           const void* begin, std::size_t bytes, std::size_t alignment) {
  const Lock lock;
  const auto found = allocation_of(begin);
  if (!found) {
    report_violation("memory.device", fmt::format("{}: {} is not device memory: {} {}", call,
                                                  operand, begin, place_of(begin)));
  }
  if (!is_device_memory(begin, bytes)) {
    report_violation("memory.bounds", fmt::format("{}: {} has {} bytes, from {}", call, operand,
                                                  bytes, place_of(begin)));
  }
  if (found->device != device) {
    report_violation("memory.device", fmt::format("{}: {} is another device's than {}: {}", call,
                                                  operand, device, place_of(begin)));
  }
  if (reinterpret_cast<std::uintptr_t>(begin) % alignment != 0) {
    report_violation("memory.alignment", fmt::format("{}: {} is not aligned to {} bytes: {}", call,
                                                     operand, alignment, begin));
  }
}

void* allocate_device_memory(int device, std::size_t bytes, std::string owner) {
  const Lock lock;
  return bytes == 0 ? nullptr : take_memory(device, bytes, std::move(owner));
}

void release_device_memory(void* begin) {
  Lock lock;
  const auto found = allocation_of(begin);
  if (!found) return;
  wait_for_device(lock, found->device);
  (void)give_memory_back(begin);
}

}  // namespace taut::twin

using namespace taut::twin;

extern "C" {

cudaError_t cudaMalloc(void** begin, std::size_t bytes) {
  const Lock lock;
  static std::uint64_t number = 0;
  if (const auto refused = enter("cudaMalloc", current_device(), cudaErrorMemoryAllocation)) {
    return *refused;
  }
  if (!may_call_unsafely("cudaMalloc")) return answer(cudaErrorStreamCaptureUnsupported);
  *begin = nullptr;
  if (bytes == 0) return cudaSuccess;
  *begin = take_memory(current_device(), bytes, fmt::format("cudaMalloc #{}", ++number));
  return answer(*begin == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFree(void* begin) {
  Lock lock;
  if (const auto refused = enter("cudaFree", current_device())) return *refused;
  if (begin == nullptr) return cudaSuccess;
  if (!may_call_unsafely("cudaFree")) return answer(cudaErrorStreamCaptureUnsupported);
  const auto found = allocation_of(begin);
  if (!found || found->begin != begin) return answer(cudaErrorInvalidValue);
  // Memory of cudaMalloc is given back when all work of its device is done.
  wait_for_device(lock, found->device);
  (void)give_memory_back(begin);
  return answer(device_status(found->device));
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Lock lock;
  if (const auto refused = enter("cudaMemGetInfo", current_device(), cudaErrorMemoryAllocation)) {
    return *refused;
  }
  *free = memory_left(current_device());
  *total = memory_of_device();
  return cudaSuccess;
}
}
