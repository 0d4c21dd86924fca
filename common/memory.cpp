#include "common/memory.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace taut {

Bytes machine_memory() {
  const auto all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  // Source: Linux, Documentation/admin-guide/cgroup-v2.rst: a number of bytes, or "max".
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  std::uint64_t group = 0;
  return Bytes(limit >> group && group > 0 ? std::min(all, group) : all);
}

void keep_freed_memory() {
  // The largest that glibc takes: up to here a block comes from the heap and stays there.
  constexpr int kMmapThreshold = 32 << 20;
  constexpr int kTrimThreshold = 512 << 20;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
}

}  // namespace taut
