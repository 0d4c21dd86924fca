#include "tests/bench/data_plane/measure.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace taut::bench {
namespace {

namespace fs = std::filesystem;

// As libzmq names them: "ZMQbg/IO/0".
constexpr const char* kIoThreads = "ZMQbg/IO/";

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

/// What proc(5) says of a process or a thread; zeros when it has ended.
struct Stat {
  std::string name;
  double cpu_s = 0;
};

Stat read_stat(const fs::path& path) {
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  const auto name = text.find('(');
  const auto after_name = text.rfind(')');
  if (name == std::string::npos || after_name == std::string::npos) return {};
  std::istringstream fields(text.substr(after_name + 2));
  std::string skipped;
  // Fields 3 to 13 of proc(5) are before utime and stime.
  for (int i = 3; i <= 13; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return {text.substr(name + 1, after_name - name - 1),
          (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK))};
}

}  // namespace

CpuTime cpu_time_of(int pid) {
  const fs::path folder = fs::path("/proc") / std::to_string(pid);
  CpuTime time{read_stat(folder / "stat").cpu_s};
  std::error_code ended;
  for (const auto& thread : fs::directory_iterator(folder / "task", ended)) {
    const Stat stat = read_stat(thread.path() / "stat");
    if (stat.name.starts_with(kIoThreads)) time.io += stat.cpu_s;
  }
  return time;
}

CpuTime cpu_time() {
  CpuTime time = cpu_time_of(getpid());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  time.all = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  return time;
}

}  // namespace taut::bench
