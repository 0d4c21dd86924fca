#pragma once

#include <sys/resource.h>

namespace taut {

/// Lets this process have as many files and connections open as the system allows it: the usual
/// 1,024 are taken by as many strangers that connect and send nothing. Does what it can.
inline void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace taut
