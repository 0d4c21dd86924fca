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

/// Who touched a byte since the last barrier.
struct Touched {
  std::uint64_t epoch = 0;  // what follows holds for it alone
  unsigned writer = kNobody;
  unsigned reader = kNobody;
  bool has_more_readers = false;
};
std::vector<Touched> touched;  // by byte; empty until an access is noted
std::uint64_t epoch = 1;       // of a block, between two barriers

/// Another thread that a thread's access of a byte races with; kNobody: none.
unsigned rival_of(const Touched& before, unsigned thread, bool is_write) {
  if (before.writer != kNobody && before.writer != thread) return before.writer;
  if (!is_write || before.reader == kNobody) return kNobody;
  return before.has_more_readers || before.reader != thread ? before.reader : kNobody;
}

void note(Touched& at, unsigned thread, bool is_write) {
  if (is_write) {
    at.writer = thread;
  } else if (at.reader == kNobody) {
    at.reader = thread;
  } else if (at.reader != thread) {
    at.has_more_readers = true;
  }
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

void note_access(const void* begin, std::size_t bytes, bool is_write, const void* code) {
  const auto* const at = static_cast<const std::byte*>(begin);
  if (at < memory.bytes || at + bytes > memory.bytes + memory.used) return;
  touched.resize(sizeof memory.bytes);
  const unsigned thread = threadIdx.x;
  const auto first = static_cast<std::size_t>(at - memory.bytes);
  for (std::size_t i = first; i < first + bytes; ++i) {
    Touched& one = touched[i];
    if (one.epoch != epoch) one = {.epoch = epoch};
    const unsigned rival = rival_of(one, thread, is_write);
    if (rival != kNobody) {
      report_violation("shared.race",
                       fmt::format("{} {} __shared__ memory that thread {} {} since the last "
                                   "barrier, at {}",
                                   running_thread(), is_write ? "writes" : "reads", rival,
                                   one.writer == rival ? "wrote" : "read", line_of(code)));
    }
    note(one, thread, is_write);
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
