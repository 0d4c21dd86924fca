#include "common/memory.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace taut {

Bytes machine_memory() {
  const auto all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  // Source: Linux, Documentation/admin-guide/cgroup-v2.rst: a number of bytes, or "max".
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  std::uint64_t group = 0;
  return Bytes(limit >> group && group > 0 ? std::min(all, group) : all);
}

Bytes available_memory() {
  // Source: Linux, Documentation/filesystems/proc.rst: "MemAvailable:   36854188 kB".
  std::ifstream lines("/proc/meminfo");
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("MemAvailable:")) {
      return Bytes(1024 * std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10));
    }
  }
  return Bytes(0);
}

void keep_freed_memory() {
  // The largest that glibc takes: up to here a block comes from the heap and stays there.
  constexpr int kMmapThreshold = 32 << 20;
  constexpr int kTrimThreshold = 512 << 20;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
}

}  // namespace taut
