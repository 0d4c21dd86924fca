#pragma once

namespace taut::twin {

/// From now on an access of memory that is closed is either let through (a kernel's own) or
/// reported. Again and again: frameworks of tests set their own handlers.
void watch_faults();
/// Opens memory that the running kernel may touch; false: it may not, or nothing runs.
bool open_touched(const void* address, bool is_write);

}  // namespace taut::twin
