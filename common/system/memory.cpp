#include "common/system/memory.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

namespace taut {
namespace {

/// The number at the start of a file.
std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream text(file);
  std::uint64_t number = 0;
  if (text >> number) return number;
  return std::nullopt;
}

/// The number after a name at the start of a line; 0 if absent.
std::uint64_t number_after(const std::filesystem::path& file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name)) return std::strtoull(line.c_str() + name.size(), nullptr, 10);
  }
  return 0;
}

/// The difference, at least 0.
std::uint64_t less(std::uint64_t number, std::uint64_t by) {
  return number - std::min(number, by);
}

}  // namespace

Bytes machine_memory() {
  const auto all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  // Source: Linux, Documentation/admin-guide/cgroup-v2.rst: a number of bytes, or "max".
  const std::uint64_t group = number_in("/sys/fs/cgroup/memory.max").value_or(0);
  return Bytes(group > 0 ? std::min(all, group) : all);
}

Bytes available_memory(const std::filesystem::path& meminfo, const std::filesystem::path& group) {
  // Source: Linux, Documentation/filesystems/proc.rst: "MemAvailable:   36854188 kB".
  const std::uint64_t machine = 1024 * number_after(meminfo, "MemAvailable:");
  // Source: Linux, admin-guide/cgroup-v2.rst: memory.max, memory.current, memory.stat.
  const auto limit = number_in(group / "memory.max");
  const auto current = number_in(group / "memory.current");
  if (!limit || !current) return Bytes(machine);
  // Inactive file pages count in memory.current until other memory is needed.
  const std::uint64_t used = less(*current, number_after(group / "memory.stat", "inactive_file "));
  return Bytes(std::min(machine, less(*limit, used)));
}

Bytes resident_memory() {
  // Source: Linux, Documentation/filesystems/proc.rst: statm's second number is resident pages.
  std::ifstream statm("/proc/self/statm");
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  statm >> all >> resident;
  return Bytes(statm ? resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0);
}

void keep_freed_memory() {
  // glibc's maximum: blocks up to this size come from the heap and stay there when freed.
  constexpr int kMmapThreshold = 32 << 20;
  constexpr int kTrimThreshold = 512 << 20;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
}

}  // namespace taut
