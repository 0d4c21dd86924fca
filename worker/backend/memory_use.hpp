#pragma once

#include <optional>

#include "common/types.hpp"
#include "worker/backend/backend.hpp"

namespace taut {

/// How much of a device's memory is taken.
struct DeviceMemoryUse {
  Bytes used;  // by what the backend has allocated
  Bytes free;  // that nobody has taken, as the device or the system says
};

/// A backend that can tell. Libraries' own workspace, which they ask of the device themselves, is not
/// in `used`; it is missing in `free`.
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

/// Nothing where the backend cannot tell. Errors: DeviceError.
[[nodiscard]] inline std::optional<DeviceMemoryUse> memory_use(const Backend& backend) {
  const auto* const meter = dynamic_cast<const MemoryMeter*>(&backend);
  if (meter == nullptr) return std::nullopt;
  return meter->memory_use();
}

}  // namespace taut
