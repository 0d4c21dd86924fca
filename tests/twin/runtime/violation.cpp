#include <execinfo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/twin/runtime/seed.hpp"
#include "tests/twin/stream_queue.hpp"

namespace taut::twin {

void report_violation(std::string_view rule, const std::string& details) {
  std::fprintf(stderr, "device twin: rule %.*s is broken: %s (seed %llu)\n",
               static_cast<int>(rule.size()), rule.data(), details.c_str(),
               static_cast<unsigned long long>(seed()));
  std::fflush(stderr);
  void* frames[32];
  backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
  std::abort();
}

void poison(void* begin, std::size_t bytes) {
  std::memset(begin, 0xFF, bytes);
}

}  // namespace taut::twin
