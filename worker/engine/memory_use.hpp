#pragma once

#include <optional>

#include "common/types.hpp"
#include "worker/engine/backend.hpp"

namespace taut {

/// How much of a device's memory is in use.
struct DeviceMemoryUse {
  Bytes used;  // by what the backend has allocated
  Bytes free;  // as the device or the system reports it
};

/// A backend that reports its memory. The workspace that libraries allocate themselves is neither
/// in `used` nor in `free`.
/// Thread    any
class MemoryMeter {
 public:
  MemoryMeter() = default;
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;
  virtual ~MemoryMeter() = default;

  /// Errors    DeviceError
  [[nodiscard]] virtual DeviceMemoryUse memory_use() const = 0;
};

/// nullopt if the backend does not report it. Errors: DeviceError.
[[nodiscard]] inline std::optional<DeviceMemoryUse> memory_use(const Backend& backend) {
  const auto* const meter = dynamic_cast<const MemoryMeter*>(&backend);
  if (meter == nullptr) return std::nullopt;
  return meter->memory_use();
}

}  // namespace taut
