#include "common/failpoint.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string_view>

namespace taut::failpoint_detail {

const bool is_set = std::getenv("TAUTLINE_FAILPOINT") != nullptr;

void reach(const char* name) {
  if (std::string_view(std::getenv("TAUTLINE_FAILPOINT")) != name) return;
  const char* const when = std::getenv("TAUTLINE_FAILPOINT_WHEN");
  if (when != nullptr && access(when, F_OK) != 0) return;
  if (std::getenv("TAUTLINE_FAILPOINT_HANGS") == nullptr) (void)kill(getpid(), SIGKILL);
  for (;;) (void)pause();
}

}  // namespace taut::failpoint_detail
