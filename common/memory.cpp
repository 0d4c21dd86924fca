#include "common/memory.hpp"

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

/// The number that a file begins with.
std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream text(file);
  std::uint64_t number = 0;
  if (text >> number) return number;
  return std::nullopt;
}

/// The number beside a name at the beginning of a line; 0: there is none.
std::uint64_t number_beside(const std::filesystem::path& file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name)) return std::strtoull(line.c_str() + name.size(), nullptr, 10);
  }
  return 0;
}

/// What is left of a number, at least 0.
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
  const std::uint64_t machine = 1024 * number_beside(meminfo, "MemAvailable:");
  // Source: Linux, Documentation/admin-guide/cgroup-v2.rst: memory.max, memory.current, memory.stat.
  const auto most = number_in(group / "memory.max");
  const auto current = number_in(group / "memory.current");
  if (!most || !current) return Bytes(machine);
  // Pages of files that nobody has used for a while count as current until others need the memory.
  const std::uint64_t used = less(*current, number_beside(group / "memory.stat", "inactive_file "));
  return Bytes(std::min(machine, less(*most, used)));
}

void keep_freed_memory() {
  // The largest that glibc takes: up to here a block comes from the heap and stays there.
  constexpr int kMmapThreshold = 32 << 20;
  constexpr int kTrimThreshold = 512 << 20;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
}

}  // namespace taut
