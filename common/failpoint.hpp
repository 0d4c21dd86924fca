#pragma once

namespace taut {

namespace failpoint_detail {
extern const bool is_set;
void reach(const char* name);
}  // namespace failpoint_detail

/// A place where a test kills this process (SIGKILL): TAUTLINE_FAILPOINT names it, and
/// TAUTLINE_FAILPOINT_WHEN, if set, a file that must exist by then. With TAUTLINE_FAILPOINT_HANGS
/// only the calling thread stops, forever. Without TAUTLINE_FAILPOINT it costs one check of a flag.
/// Thread    any
inline void failpoint(const char* name) {
  if (failpoint_detail::is_set) [[unlikely]] {
    failpoint_detail::reach(name);
  }
}

}  // namespace taut
