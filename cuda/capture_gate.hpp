#pragma once

#include <shared_mutex>

namespace taut::cuda {

/// A wait for a whole device invalidates what any thread captures of it meanwhile: who captures
/// holds this shared, who waits for a device holds it alone. Captures are short, as they only
/// queue.
[[nodiscard]] inline std::shared_mutex& captures() {
  static std::shared_mutex gate;
  return gate;
}

}  // namespace taut::cuda
