// What the compiler calls at each access of memory in code that is compiled with
// -fsanitize=thread: the accesses of kernels, whose __shared__ memory is looked at. The sanitizer's
// own library is not linked.
#include <cstddef>
#include <cstdint>

#include "tests/twin/kernels/block_memory.hpp"
#include "tests/twin/races/passes.hpp"

namespace taut::twin {
namespace {

struct Watched {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  std::uint64_t bytes = 0;
};
Watched watched;  // kernels run one at a time, whichever thread runs them

void note(void* at, std::size_t bytes, AccessKind access, void* from) {
  const auto* const place = static_cast<const std::byte*>(at);
  if (place >= watched.begin && place < watched.end) watched.bytes += bytes;
  note_access(at, bytes, access, from);
}

}  // namespace

void watch(std::span<const std::byte> memory) {
  watched = {memory.data(), memory.data() + memory.size(), 0};
}

std::uint64_t watched_bytes() {
  return watched.bytes;
}

}  // namespace taut::twin

#define TAUT_ACCESS(name, bytes, access)                                                      \
  void name(void* at);                                                                        \
  void name(void* at) {                                                                       \
    taut::twin::note(at, bytes, taut::twin::AccessKind::access, __builtin_return_address(0)); \
  }
#define TAUT_ACCESSES(bytes)                              \
  TAUT_ACCESS(__tsan_read##bytes, bytes, kRead)           \
  TAUT_ACCESS(__tsan_write##bytes, bytes, kWrite)         \
  TAUT_ACCESS(__tsan_unaligned_read##bytes, bytes, kRead) \
  TAUT_ACCESS(__tsan_unaligned_write##bytes, bytes, kWrite)

extern "C" {

TAUT_ACCESSES(1)
TAUT_ACCESSES(2)
TAUT_ACCESSES(4)
TAUT_ACCESSES(8)
TAUT_ACCESSES(16)

void __tsan_read_range(void* at, std::size_t bytes);
void __tsan_read_range(void* at, std::size_t bytes) {
  taut::twin::note(at, bytes, taut::twin::AccessKind::kRead, __builtin_return_address(0));
}
void __tsan_write_range(void* at, std::size_t bytes);
void __tsan_write_range(void* at, std::size_t bytes) {
  taut::twin::note(at, bytes, taut::twin::AccessKind::kWrite, __builtin_return_address(0));
}

void __tsan_init();
void __tsan_init() {}
void __tsan_func_entry(void* caller);
void __tsan_func_entry(void* /*caller*/) {}
void __tsan_func_exit();
void __tsan_func_exit() {}
void __tsan_vptr_update(void** place, void* value);
void __tsan_vptr_update(void** /*place*/, void* /*value*/) {}
void __tsan_vptr_read(void** place);
void __tsan_vptr_read(void** /*place*/) {}

// Of what the launches' own code is made of: counts of owners, and guards of statics.
unsigned char __tsan_atomic8_load(const volatile unsigned char* at, int order);
unsigned char __tsan_atomic8_load(const volatile unsigned char* at, int /*order*/) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
unsigned __tsan_atomic32_fetch_add(volatile unsigned* at, unsigned value, int order);
unsigned __tsan_atomic32_fetch_add(volatile unsigned* at, unsigned value, int /*order*/) {
  return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
unsigned __tsan_atomic32_load(const volatile unsigned* at, int order);
unsigned __tsan_atomic32_load(const volatile unsigned* at, int /*order*/) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
}
