#pragma once

#include <cstddef>

namespace taut::twin {

/// How a copy sees a stretch of the host's memory.
enum class HostPart {
  kPageable,
  kPinned,  // all of it within one allocation or registration
  kMixed,   // over the border of one: a copy of it is refused
};
/// REQUIRES: the lock is held
[[nodiscard]] HostPart host_part(const void* begin, std::size_t bytes);
/// False: it was registered to be read. REQUIRES: the lock is held
[[nodiscard]] bool may_be_written(const void* begin, std::size_t bytes);

}  // namespace taut::twin
