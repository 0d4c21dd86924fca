#include "lab/schedule/type_use.hpp"

namespace taut::schedule {

TypeUse::TypeUse(const View& view) {
  for (std::size_t type = 0; type < kDeviceTypes; ++type) {
    usable[type] = view.usable_devices(static_cast<DeviceType>(type));
  }
  idle = usable;
  for (const JobIndex job : view.active()) {
    if (view.state(job).leader != kNoJob) continue;
    for (const DeviceIndex device : view.state(job).devices) {
      const HostIndex host = view.cluster().host_of[device];
      --idle[static_cast<std::size_t>(view.cluster().hosts[host].type)];
    }
  }
}

double type_speed(const View& view, JobIndex job, DeviceType type) {
  const std::uint32_t workers = view.job(job).workers;
  return speed_of(view.job(job),
                  {.workers = workers, .tier = view.nearest_tier(workers, type), .type = type},
                  view.cluster());
}

}  // namespace taut::schedule
