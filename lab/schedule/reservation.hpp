#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lab/schedule/view.hpp"

namespace taut::schedule {

/// What a job has of each of its devices, and until when.
struct Occupancy {
  double until_s = 0;
  std::uint32_t parts = kPartsOfDevice;
  std::span<const DeviceIndex> devices;
};

/// What running jobs have until their expected ends.
[[nodiscard]] std::vector<Occupancy> occupancies(const View& view);

/// The devices that a waiting job will have, or the part of one, and from when on, if no other job
/// starts. It is counted device by device: parts that are free on several devices are no device
/// that is free.
/// Source    Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995, for whole processors
class DeviceReservation {
 public:
  /// occupied  by all that has devices
  DeviceReservation(const View& view, JobIndex job, std::vector<Occupancy> occupied);

  /// When enough devices will have room for the job: now, or when another job ends.
  [[nodiscard]] double from_s() const { return from_s_; }
  /// Devices with room for the job that others may keep beyond that time.
  [[nodiscard]] std::size_t spare() const { return fitting_ > devices_ ? fitting_ - devices_ : 0; }
  /// Whether the job can start at that time although another one starts now. If so, what the other
  /// one has then counts as taken.
  [[nodiscard]] bool admit(const Occupancy& other);

 private:
  std::uint32_t parts_;      // of each device that the job asks for
  std::size_t devices_;      // so many of them
  std::size_t fitting_;      // devices that have room for it then
  std::vector<Parts> room_;  // of each device then
  double from_s_;
};

}  // namespace taut::schedule
