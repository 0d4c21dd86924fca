#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/twin/runtime/call.hpp"
#include "tests/twin/runtime/device_memory.hpp"
#include "tests/twin/runtime/host_memory.hpp"
#include "tests/twin/runtime/scheduler.hpp"
#include "tests/twin/runtime/stream.hpp"

namespace taut::twin {
namespace {

struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

bool is_of_device(const void* address) {
  return allocation_of(address).has_value() || !place_of(address).empty();
}

/// What the documentation refuses, or nothing. Where it leaves the behaviour open, it is reported.
std::optional<cudaError_t> refusal(const Copy& copy, cudaMemcpyKind kind) {
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyHostToDevice && !from_device) return cudaErrorInvalidMemcpyDirection;
  if (is_of_device(copy.from) != from_device || is_of_device(copy.to) != to_device) {
    report_violation(
        "copy.direction",
        fmt::format("cudaMemcpyAsync of kind {} from {} to {}", static_cast<int>(kind),
                    from_device ? "the host" : "a device", to_device ? "the host" : "a device"));
  }
  for (const void* const side : {copy.from, static_cast<const void*>(copy.to)}) {
    if (is_of_device(side) && !is_device_memory(side, copy.bytes)) return cudaErrorInvalidValue;
    if (!is_of_device(side) && host_part(side, copy.bytes) == HostPart::kMixed) {
      return cudaErrorInvalidValue;
    }
  }
  if (kind == cudaMemcpyDeviceToHost && !may_be_written(copy.to, copy.bytes)) {
    report_violation("host.read-only",
                     fmt::format("cudaMemcpyAsync of {} bytes to memory that is registered to be "
                                 "read",
                                 copy.bytes));
  }
  const auto* const from = static_cast<const std::byte*>(copy.from);
  const auto* const to = static_cast<const std::byte*>(copy.to);
  if (from < to + copy.bytes && to < from + copy.bytes) {
    report_violation("copy.overlap",
                     fmt::format("cudaMemcpyAsync of {} bytes onto itself, {} bytes further",
                                 copy.bytes, to - from));
  }
  return std::nullopt;
}

Task task_of(const Copy& copy, int device) {
  const TaskKind kind = !is_of_device(copy.from) ? TaskKind::kToDevice
                        : is_of_device(copy.to)  ? TaskKind::kOnDevice
                                                 : TaskKind::kToHost;
  return {.what = fmt::format("cudaMemcpyAsync of {} bytes", copy.bytes),
          .device = device,
          .accesses = {{copy.from, copy.bytes, false}, {copy.to, copy.bytes, true}},
          .run = [copy] { std::memcpy(copy.to, copy.from, copy.bytes); },
          .kind = kind,
          .amount = copy.bytes};
}

/// Pageable memory to a device, through the driver's own pinned memory: what it holds now is
/// copied, whenever that is.
cudaError_t copy_staged(CUstream_st& stream, Copy copy) {
  const auto* const from = static_cast<const std::byte*>(copy.from);
  const auto staged = std::make_shared<std::vector<std::byte>>(from, from + copy.bytes);
  copy.from = staged->data();
  Task task = task_of(copy, stream.device);
  task.run = [copy, staged] { std::memcpy(copy.to, staged->data(), copy.bytes); };
  return append(stream, std::move(task));
}

cudaError_t queue_copy(Lock& lock, CUstream_st& stream, const Copy& copy, cudaMemcpyKind kind) {
  const void* const host = kind == cudaMemcpyHostToDevice ? copy.from : copy.to;
  const bool is_pageable =
      kind != cudaMemcpyDeviceToDevice && host_part(host, copy.bytes) == HostPart::kPageable;
  if (!is_pageable) return append(stream, task_of(copy, stream.device));
  if (stream.capture != nullptr) {
    report_violation("capture.pageable",
                     fmt::format("a copy of {} bytes of pageable memory is captured", copy.bytes));
  }
  // Such a copy "might be synchronous": nothing may count on it, nor on the contrary.
  const bool is_over = random_number("pageable copies", 2) == 0;
  if (is_over && kind == cudaMemcpyHostToDevice) return copy_staged(stream, copy);
  const cudaError_t status = append(stream, task_of(copy, stream.device));
  if (!is_over || status != cudaSuccess) return status;
  wait_for(lock, stream.tail);
  return device_status(stream.device);
}

}  // namespace
}  // namespace taut::twin

using namespace taut::twin;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  Lock lock;
  CUstream_st& stream = stream_of("cudaMemcpyAsync", handle);
  if (const auto refused = enter("cudaMemcpyAsync", stream.device)) return *refused;
  if (bytes == 0) return cudaSuccess;
  const Copy copy{to, from, bytes};
  if (const auto refused = refusal(copy, kind)) return answer(*refused);
  return answer(queue_copy(lock, stream, copy, kind));
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  const Lock lock;
  CUstream_st& stream = stream_of("cudaMemsetAsync", handle);
  if (const auto refused = enter("cudaMemsetAsync", stream.device)) return *refused;
  if (bytes == 0) return cudaSuccess;
  if (!is_device_memory(to, bytes)) return answer(cudaErrorInvalidValue);
  return answer(append(stream, {.what = fmt::format("cudaMemsetAsync of {} bytes", bytes),
                                .device = stream.device,
                                .accesses = {{to, bytes, true}},
                                .run = [=] { std::memset(to, value, bytes); },
                                .kind = TaskKind::kOnDevice,
                                .amount = bytes}));
}
}
