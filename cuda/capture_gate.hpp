#pragma once

#include <shared_mutex>

namespace taut::cuda {

/// A wait for a whole device invalidates what any thread is capturing on it: a capture holds this
/// lock shared, a wait for a device holds it exclusively. Captures are short, since they only queue
/// work.
[[nodiscard]] inline std::shared_mutex& captures() {
  static std::shared_mutex gate;
  return gate;
}

}  // namespace taut::cuda
