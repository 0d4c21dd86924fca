#pragma once

namespace taut {

namespace failpoint_detail {
extern const bool is_set;
void reach(const char* name);
}  // namespace failpoint_detail

/// A place at which a test has this process killed, as kill -9 does: TAUTLINE_FAILPOINT names it,
/// and TAUTLINE_FAILPOINT_WHEN a file that must exist by then. With TAUTLINE_FAILPOINT_HANGS the
/// thread alone stops there, for good. Without these variables it costs the look at a constant.
/// Thread    any
inline void failpoint(const char* name) {
  if (failpoint_detail::is_set) [[unlikely]] {
    failpoint_detail::reach(name);
  }
}

}  // namespace taut
