#pragma once

#include <sys/resource.h>

namespace taut {

/// Raises this process's limit on open files and connections as far as the system allows: 1,024
/// clients that connect and send nothing would use up the usual limit. Ignores errors.
inline void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace taut
