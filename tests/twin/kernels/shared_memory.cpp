#include "tests/twin/kernels/shared_memory.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "tests/twin/kernels/block.hpp"
#include "tests/twin/kernels/block_memory.hpp"
#include "tests/twin/kernels/device_code.hpp"
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

constexpr unsigned kNobody = ~0U;

/// The first thread that touched a byte in some way, and whether another one did.
struct Group {
  unsigned first = kNobody;
  bool has_more = false;

  void add(unsigned thread) {
    if (first == kNobody) first = thread;
    has_more = has_more || first != thread;
  }
  [[nodiscard]] bool has_other_than(unsigned thread) const {
    return first != kNobody && (has_more || first != thread);
  }
};

/// Who touched a byte since the last barrier.
struct Touched {
  std::uint64_t epoch = 0;  // what follows holds for it alone
  Group writers = {};
  Group readers = {};
  Group adders = {};  // by atomic calls
};
std::vector<Touched> touched;  // by byte; empty until an access is noted
std::uint64_t epoch = 1;       // of a block, between two barriers

/// What a thread's access of a byte races with.
struct Rival {
  unsigned thread = kNobody;
  const char* deed = "";
};
Rival rival_of(const Touched& before, unsigned thread, AccessKind access) {
  if (before.writers.has_other_than(thread)) return {before.writers.first, "wrote"};
  if (access != AccessKind::kRead && before.readers.has_other_than(thread)) {
    return {before.readers.first, "read"};
  }
  if (access != AccessKind::kAtomic && before.adders.has_other_than(thread)) {
    return {before.adders.first, "added to"};
  }
  return {};
}

Group& group_of(Touched& at, AccessKind access) {
  if (access == AccessKind::kAtomic) return at.adders;
  return access == AccessKind::kWrite ? at.writers : at.readers;
}

constexpr const char* name_of(AccessKind access) {
  if (access == AccessKind::kAtomic) return "adds to";
  return access == AccessKind::kWrite ? "writes" : "reads";
}

bool is_red(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (memory.bytes[i] != std::byte{kRed}) return false;
  }
  return true;
}

/// FILE:LINE of an address in code, where addr2line is found; else the address in its file.
std::string line_of(const void* code) {
  Dl_info object{};
  if (dladdr(code, &object) == 0) return fmt::format("{}", code);
  const auto offset =
      static_cast<const std::byte*>(code) - static_cast<const std::byte*>(object.dli_fbase);
  // A program may have been started under another name.
  std::error_code failed;
  const std::filesystem::path file = std::filesystem::exists(object.dli_fname, failed)
                                         ? std::filesystem::path(object.dli_fname)
                                         : std::filesystem::read_symlink("/proc/self/exe", failed);
  std::string place = fmt::format("{} {:#x}", file.string(), offset - 1);
  const std::string command = "addr2line -e " + place;
  std::FILE* const answer = popen(command.c_str(), "r");
  if (answer == nullptr) return place;
  char line[512] = "";
  const bool is_known = std::fgets(line, sizeof line, answer) != nullptr && line[0] != '?';
  (void)pclose(answer);
  if (!is_known) return place;
  line[std::strcspn(line, "\n")] = 0;
  return line;
}

}  // namespace

void begin_block_memory() {
  memory.declared.clear();
  memory.used = 0;
  memory.requested_bytes = 0;
  ++epoch;
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

void barrier_of_block_memory() {
  ++epoch;
}

void note_access(const void* begin, std::size_t bytes, AccessKind access, const void* code) {
  const auto* const at = static_cast<const std::byte*>(begin);
  if (at < memory.bytes || at + bytes > memory.bytes + memory.used) return;
  touched.resize(sizeof memory.bytes);
  const unsigned thread = threadIdx.x;
  const auto first = static_cast<std::size_t>(at - memory.bytes);
  for (std::size_t i = first; i < first + bytes; ++i) {
    Touched& one = touched[i];
    if (one.epoch != epoch) one = {.epoch = epoch};
    const Rival rival = rival_of(one, thread, access);
    if (rival.thread != kNobody) {
      report_violation(
          "shared.race",
          fmt::format("{} {} __shared__ memory that thread {} {} since the last "
                      "barrier, at {}",
                      running_thread(), name_of(access), rival.thread, rival.deed, line_of(code)));
    }
    group_of(one, access).add(thread);
  }
}

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

/// Threads run one at a time, so it needs nothing more. Not compiled as kernels are, whose accesses
/// are noted where they are made.
unsigned atomicAdd(unsigned* at, unsigned value) {
  using taut::twin::AccessKind;
  if (!taut::twin::touched.empty()) {
    taut::twin::note_access(at, sizeof *at, AccessKind::kAtomic, __builtin_return_address(0));
  }
  const unsigned old = *at;
  *at = old + value;
  return old;
}
