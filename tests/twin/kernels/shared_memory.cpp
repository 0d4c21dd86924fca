#include "tests/twin/kernels/shared_memory.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/twin/kernels/block.hpp"
#include "tests/twin/kernels/block_memory.hpp"
#include "tests/twin/stream_queue.hpp"

namespace taut::twin {
namespace {

constexpr std::size_t kMaxStaticBytes = 48UL << 10U;  // of a block without an opt-in
constexpr std::size_t kRedZone = 64;
constexpr int kPoison = 0xFF;  // no number, as a float or a double
constexpr int kRed = 0xFD;

struct Declared {
  const void* place;
  std::size_t offset;
  std::size_t bytes;
};

struct BlockMemory {
  alignas(256) std::byte bytes[kMaxStaticBytes + (64 * kRedZone)];
  std::vector<Declared> declared;
  std::size_t used = 0;  // with red zones
  std::size_t requested_bytes = 0;
};
BlockMemory memory;

bool is_red(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (memory.bytes[i] != std::byte{kRed}) return false;
  }
  return true;
}

}  // namespace

void begin_block_memory() {
  memory.declared.clear();
  memory.used = 0;
  memory.requested_bytes = 0;
}

void end_block_memory() {
  std::size_t end = 0;
  for (const Declared& one : memory.declared) {
    if (!is_red(end, one.offset)) {
      report_violation("shared.bounds",
                       fmt::format("before or behind a __shared__ declaration of {} bytes: {}",
                                   one.bytes, running_thread()));
    }
    end = one.offset + one.bytes;
  }
  if (!is_red(end, memory.used)) {
    report_violation("shared.bounds",
                     fmt::format("behind the last __shared__ declaration: {}", running_thread()));
  }
}

void barrier_of_block_memory() {}

void* shared_memory(const void* place, std::size_t bytes, std::size_t alignment) {
  for (const Declared& one : memory.declared) {
    if (one.place == place) return memory.bytes + one.offset;
  }
  memory.requested_bytes += bytes;
  if (memory.requested_bytes > kMaxStaticBytes) {
    report_violation("shared.size",
                     fmt::format("{} bytes of __shared__ memory, {} are allowed: {}",
                                 memory.requested_bytes, kMaxStaticBytes, running_thread()));
  }
  const std::size_t first = memory.used + kRedZone;
  const std::size_t offset = (first + alignment - 1) / alignment * alignment;
  const std::size_t end = offset + bytes + kRedZone;
  std::memset(memory.bytes + memory.used, kRed, end - memory.used);
  std::memset(memory.bytes + offset, kPoison, bytes);
  memory.declared.push_back({place, offset, bytes});
  memory.used = end;
  return memory.bytes + offset;
}

}  // namespace taut::twin
