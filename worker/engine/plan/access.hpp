#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// How calls access device memory: the terms in which the backend records calls and which the memory
// plan reads.
namespace taut {

enum class AccessMode : std::uint8_t {
  kRead,
  kWrite,      // of every byte: the old value is not needed
  kReadWrite,  // in place
  kWritePart,  // of some bytes: the rest keeps its value
};

/// Whether a call with this mode needs the old value.
[[nodiscard]] constexpr bool needs_old(AccessMode mode) {
  return mode != AccessMode::kWrite;
}
/// Whether a call with this mode leaves a new value.
[[nodiscard]] constexpr bool writes(AccessMode mode) {
  return mode != AccessMode::kRead;
}

/// One call's access to one buffer.
struct Access {
  std::size_t buffer = 0;  // its number: the backend's in a recorded step, the trace's in a trace
  AccessMode mode = AccessMode::kRead;
  friend bool operator==(const Access&, const Access&) = default;
};

/// One call of a cycle.
struct TraceStep {
  std::string name;
  std::vector<Access> accesses;  // a buffer named twice counts as read and written
  bool on_compute = true;        // else on a separate stream: a copy in parallel with the rest
  friend bool operator==(const TraceStep&, const TraceStep&) = default;
};

}  // namespace taut
