#pragma once

#include <array>
#include <cstdint>

#include "lab/schedule/view.hpp"

namespace taut::schedule {

/// The devices of each type: those that are usable, and those of them that no job has.
struct TypeUse {
  explicit TypeUse(const View& view);

  std::array<std::uint32_t, kDeviceTypes> usable{};
  std::array<std::uint32_t, kDeviceTypes> idle{};
};

/// A job's speed with the devices that it requests, all of that type, as near as they can be.
[[nodiscard]] double type_speed(const View& view, JobIndex job, DeviceType type);

}  // namespace taut::schedule
