#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lab/schedule/view.hpp"

namespace taut::schedule {

/// What a job occupies of each of its devices, and until when.
struct Occupancy {
  double until_s = 0;
  std::uint32_t parts = kPartsOfDevice;
  std::span<const DeviceIndex> devices;
};

/// What running jobs have until their expected ends.
[[nodiscard]] std::vector<Occupancy> occupancies(const View& view);

/// The devices, or the part of one, that a waiting job will have if no other job starts, and from
/// when on. Counted device by device: free parts of several devices do not make a free device.
/// Source    Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995, for whole processors
class DeviceReservation {
 public:
  /// occupied  by every job that has devices
  DeviceReservation(const View& view, JobIndex job, std::vector<Occupancy> occupied);

  /// When enough devices will have room for the job: now, or when another job ends.
  [[nodiscard]] double from_s() const { return from_s_; }
  /// How many devices with room for the job other jobs may keep beyond that time.
  [[nodiscard]] std::size_t spare() const { return fitting_ > devices_ ? fitting_ - devices_ : 0; }
  /// Whether the job can start at that time although `other` starts now. If so, what `other` still
  /// has then counts as taken.
  [[nodiscard]] bool admit(const Occupancy& other);

 private:
  std::uint32_t parts_;      // of each device that the job asks for
  std::size_t devices_;      // how many of them
  std::size_t fitting_;      // devices that have room for it then
  std::vector<Parts> room_;  // of each device then
  double from_s_;
};

}  // namespace taut::schedule
