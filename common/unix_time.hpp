#pragma once

#include <chrono>

namespace taut {

/// Seconds since 1970, by the machine's wall clock.
[[nodiscard]] inline double unix_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace taut
