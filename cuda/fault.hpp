#pragma once

#include <cstdint>

namespace taut::cuda {

/// A fault that a kernel found in its data. A kernel cannot throw: it records the first one,
/// continues as if the element did not exist, and the host checks when it waits for the stream.
struct Fault {
  enum Kind : std::int32_t { kNone = 0, kLabel = 1, kRow = 2, kOverflow = 3 };
  std::int32_t kind = kNone;
  float value = 0;            // the value
  std::int64_t position = 0;  // in its batch, or in a result
  std::int64_t limit = 0;     // it should be in [0, limit); of kOverflow the largest number
};

}  // namespace taut::cuda
