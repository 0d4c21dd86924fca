#pragma once

#include <cstdint>

namespace taut::cuda {

/// What a kernel found wrong with its data: it cannot throw, so it writes the first thing down,
/// goes on as if the element were not there, and the host asks when it waits for the stream.
struct Fault {
  enum Kind : std::int32_t { kNone = 0, kLabel = 1, kRow = 2 };
  std::int32_t kind = kNone;
  float value = 0;            // what stands there
  std::int64_t position = 0;  // in its batch
  std::int64_t limit = 0;     // it should lie in [0, limit)
};

}  // namespace taut::cuda
