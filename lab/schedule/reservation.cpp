#include "lab/schedule/reservation.hpp"

#include <algorithm>
#include <utility>

namespace taut::schedule {

std::vector<Occupancy> occupancies(const View& view) {
  std::vector<Occupancy> occupied;
  for (const JobIndex job : view.active()) {
    if (!view.is_running(job)) continue;
    occupied.push_back({.until_s = view.now_s() + view.remaining_s(job),
                        .parts = view.asked_parts_of_device(job),
                        .devices = view.state(job).devices});
  }
  return occupied;
}

DeviceReservation::DeviceReservation(const View& view, JobIndex job,
                                     std::vector<Occupancy> occupied)
    : parts_(view.asked_parts_of_device(job)),
      devices_(view.job(job).workers),
      room_(view.cluster().devices()),
      from_s_(view.now_s()) {
  for (DeviceIndex device = 0; device < room_.size(); ++device) {
    if (view.usable_hosts()[view.cluster().host_of[device]]) room_[device] = kPartsOfDevice;
  }
  for (const Occupancy& one : occupied) {
    for (const DeviceIndex device : one.devices) room_[device] -= one.parts;
  }
  const auto fits = [this](Parts room) { return room >= parts_; };
  fitting_ = static_cast<std::size_t>(std::ranges::count_if(room_, fits));
  std::ranges::stable_sort(occupied, {}, &Occupancy::until_s);
  for (const Occupancy& one : occupied) {
    if (fitting_ >= devices_) break;
    for (const DeviceIndex device : one.devices) {
      const bool had_room = fits(room_[device]);
      room_[device] += one.parts;
      if (!had_room && fits(room_[device])) ++fitting_;
    }
    from_s_ = one.until_s;
  }
}

bool DeviceReservation::admit(const Occupancy& other) {
  if (other.until_s <= from_s_) return true;
  const auto is_lost = [&](DeviceIndex device) {
    return room_[device] >= parts_ && room_[device] < parts_ + other.parts;
  };
  const auto lost = static_cast<std::size_t>(std::ranges::count_if(other.devices, is_lost));
  if (fitting_ < devices_ + lost) return false;
  fitting_ -= lost;
  for (const DeviceIndex device : other.devices) room_[device] -= other.parts;
  return true;
}

}  // namespace taut::schedule
