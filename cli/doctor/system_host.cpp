#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "cli/doctor/machine.hpp"

namespace taut::cli {
namespace {

/// The text after "NAME :" in the first such line of a file in /proc; empty if absent.
std::string value_of(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// From /proc/meminfo, whose numbers are KiB.
std::uint64_t memory_line(const std::string& name) {
  return std::strtoull(value_of("/proc/meminfo", name).c_str(), nullptr, 10) * 1024;
}

std::string first_line(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Source    Linux, Documentation/admin-guide/cgroup-v2.rst: cpu.max is "QUOTA PERIOD" in
///           microseconds, or "max PERIOD"
double processor_quota() {
  const auto words = words_of(first_line("/sys/fs/cgroup/cpu.max"));
  if (words.size() != 2 || words[0] == "max") return 0;
  const double period = std::strtod(words[1].c_str(), nullptr);
  return period > 0 ? std::strtod(words[0].c_str(), nullptr) / period : 0;
}

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::uint64_t or_none(rlim_t limit) {
  return limit == RLIM_INFINITY ? 0 : std::uint64_t{limit};
}

}  // namespace

HostFacts system_host() {
  HostFacts facts;
  facts.processor = value_of("/proc/cpuinfo", "model name");
  facts.flags = words_of(value_of("/proc/cpuinfo", "flags"));
  facts.processors = usable_processors();
  facts.online_processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.processor_quota = processor_quota();
  facts.memory_bytes = memory_line("MemTotal");
  facts.available_bytes = memory_line("MemAvailable");
  // "max" is not a number and reads as 0: none.
  facts.group_limit_bytes =
      std::strtoull(first_line("/sys/fs/cgroup/memory.max").c_str(), nullptr, 10);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.open_files = limit.rlim_cur;
    facts.open_files_hard = limit.rlim_max;
  }
  if (getrlimit(RLIMIT_AS, &limit) == 0) facts.address_space = or_none(limit.rlim_cur);
  struct statvfs shm = {};
  if (statvfs("/dev/shm", &shm) == 0) facts.shm_bytes = std::uint64_t{shm.f_bavail} * shm.f_frsize;
  return facts;
}

}  // namespace taut::cli
