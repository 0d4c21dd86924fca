#include "tests/twin/runtime/host_memory.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>
#include <map>

#include "tests/twin/runtime/call.hpp"
#include "tests/twin/runtime/device_memory.hpp"
#include "tests/twin/runtime/scheduler.hpp"

// Pinned memory: allocated so, or registered.
namespace taut::twin {
namespace {

constexpr std::size_t kPage = 4096;

struct Pinned {
  std::size_t bytes = 0;
  bool is_registered = false;  // else cudaHostAlloc's
  bool is_read_only = false;
  std::size_t mapped = 0;  // with the guard page
};
std::map<const std::byte*, Pinned>& pinned() {
  static auto* const one = new std::map<const std::byte*, Pinned>;
  return *one;
}

/// The first pinned part that reaches behind `begin`.
auto first_behind(const std::byte* begin) {
  auto found = pinned().upper_bound(begin);
  if (found != pinned().begin()) {
    const auto before = std::prev(found);
    if (before->first + before->second.bytes > begin) return before;
  }
  return found;
}

void require_unused(const char* call, const void* begin, std::size_t bytes) {
  const Operation* const user = pending_use(begin, bytes);
  if (user == nullptr) return;
  report_violation("host.in-use",
                   fmt::format("{} of {} bytes that {} still uses", call, bytes, user->task.what));
}

}  // namespace

HostPart host_part(const void* begin, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(begin);
  const auto found = first_behind(first);
  if (found == pinned().end() || found->first >= first + bytes) return HostPart::kPageable;
  const bool holds_all =
      found->first <= first && first + bytes <= found->first + found->second.bytes;
  return holds_all ? HostPart::kPinned : HostPart::kMixed;
}

bool may_be_written(const void* begin, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(begin);
  const auto found = first_behind(first);
  return found == pinned().end() || found->first >= first + bytes || !found->second.is_read_only;
}

}  // namespace taut::twin

using namespace taut::twin;

extern "C" {

cudaError_t cudaHostAlloc(void** begin, std::size_t bytes, unsigned flags) {
  const Lock lock;
  if (const auto refused = enter("cudaHostAlloc", current_device(), cudaErrorMemoryAllocation)) {
    return *refused;
  }
  if (!may_call_unsafely("cudaHostAlloc")) return answer(cudaErrorStreamCaptureUnsupported);
  constexpr unsigned kKnown =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if ((flags & ~kKnown) != 0 || bytes == 0) return answer(cudaErrorInvalidValue);
  const std::size_t pages = (bytes + kPage - 1) / kPage * kPage;
  void* const place =
      mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return answer(cudaErrorMemoryAllocation);
  auto* const first = static_cast<std::byte*>(place);
  (void)mprotect(first + pages, kPage, PROT_NONE);
  std::memset(first, kPoison, pages);
  pinned()[first] = {.bytes = bytes, .is_registered = false, .mapped = pages + kPage};
  *begin = first;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* begin) {
  const Lock lock;
  if (const auto refused = enter("cudaFreeHost", current_device())) return *refused;
  if (begin == nullptr) return cudaSuccess;
  if (!may_call_unsafely("cudaFreeHost")) return answer(cudaErrorStreamCaptureUnsupported);
  const auto found = pinned().find(static_cast<const std::byte*>(begin));
  if (found == pinned().end() || found->second.is_registered) return answer(cudaErrorInvalidValue);
  require_unused("cudaFreeHost", begin, found->second.bytes);
  (void)munmap(begin, found->second.mapped);
  pinned().erase(found);
  return cudaSuccess;
}

// Since CUDA 11 memory that CUDA does not know is no error, but of type "unregistered".
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* address) {
  const Lock lock;
  if (const auto refused = enter("cudaPointerGetAttributes", current_device())) return *refused;
  if (found == nullptr || address == nullptr) return answer(cudaErrorInvalidValue);
  *found = {};
  found->device = current_device();
  if (const auto device = device_of(address)) {
    found->type = cudaMemoryTypeDevice;
    found->device = *device;
    found->devicePointer = const_cast<void*>(address);
  } else if (host_part(address, 1) == HostPart::kPinned) {
    found->type = cudaMemoryTypeHost;
    found->hostPointer = const_cast<void*>(address);
  } else {
    found->type = cudaMemoryTypeUnregistered;
  }
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* begin, std::size_t bytes, unsigned flags) {
  const Lock lock;
  if (const auto refused = enter("cudaHostRegister", current_device(), cudaErrorMemoryAllocation)) {
    return *refused;
  }
  if (!may_call_unsafely("cudaHostRegister")) return answer(cudaErrorStreamCaptureUnsupported);
  constexpr unsigned kKnown =
      cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly;
  if (begin == nullptr || bytes == 0 || (flags & ~kKnown) != 0) {
    return answer(cudaErrorInvalidValue);
  }
  if (host_part(begin, bytes) != HostPart::kPageable) {
    return answer(cudaErrorHostMemoryAlreadyRegistered);
  }
  pinned()[static_cast<const std::byte*>(begin)] = {
      .bytes = bytes,
      .is_registered = true,
      .is_read_only = (flags & cudaHostRegisterReadOnly) != 0};
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* begin) {
  const Lock lock;
  if (const auto refused = enter("cudaHostUnregister", current_device())) return *refused;
  if (!may_call_unsafely("cudaHostUnregister")) return answer(cudaErrorStreamCaptureUnsupported);
  const auto found = pinned().find(static_cast<const std::byte*>(begin));
  if (found == pinned().end() || !found->second.is_registered) {
    return answer(cudaErrorHostMemoryNotRegistered);
  }
  require_unused("cudaHostUnregister", begin, found->second.bytes);
  pinned().erase(found);
  return cudaSuccess;
}
}
