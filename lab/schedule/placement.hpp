#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lab/schedule/cluster.hpp"

namespace taut::schedule {

/// Where devices are requested.
struct PlaceRequest {
  std::uint32_t workers = 1;
  std::optional<DeviceType> type{};
  Tier within = Tier::kCluster;
  const std::vector<DeviceIndex>* before = nullptr;  // where the job ran last: preferred
  std::optional<std::uint32_t> cell{};               // of all hosts; nullopt: any
};

/// Knows which devices are free, and chooses those that a job gets: on the host whose free ones
/// exceed the number least, on loan only if no own host has enough; otherwise in the rack with the
/// least to spare, or in any rack, on as few hosts as possible. If any type will do, it takes the
/// one with the most free devices, or else several. For one type it chooses as many on each host as
/// the coordinator's choose_workers(). When a job grows, the coordinator considers all of its
/// racks, and this class only the rack of its first device.
class Placement {
 public:
  explicit Placement(const Cluster& cluster);

  /// Sets whether a host's devices may be given out. REQUIRES that all of them are free.
  void set_usable(HostIndex host, bool usable);
  [[nodiscard]] std::uint32_t free_devices() const { return all_free_; }
  [[nodiscard]] bool is_free(DeviceIndex device) const { return is_free_[device]; }
  [[nodiscard]] std::uint32_t free_of(HostIndex host) const { return free_[host]; }

  /// Takes devices and returns them, ascending; empty if the request cannot be met.
  [[nodiscard]] std::vector<DeviceIndex> take(const PlaceRequest& request);
  /// Takes further devices for a job that has some, of the first one's type and near to them; empty
  /// if there are not enough.
  /// cell  as in PlaceRequest
  [[nodiscard]] std::vector<DeviceIndex> take_more(const std::vector<DeviceIndex>& has,
                                                   std::uint32_t more,
                                                   std::optional<std::uint32_t> cell = {});
  void release(const std::vector<DeviceIndex>& devices);

  /// Takes `parts` of a device: of the one in part use with the least room that suffices, or of a
  /// free one; empty if no device has room.
  /// before  where the job ran last: preferred
  /// Source  best fit, with which Weng et al. compare in "Beware of Fragmentation: Scheduling
  ///         GPU-Sharing Workloads with Fragmentation Gradient Descent", ATC 2023
  [[nodiscard]] std::vector<DeviceIndex> take_part(std::uint32_t parts,
                                                   const std::vector<DeviceIndex>& before);
  void release_part(DeviceIndex device, std::uint32_t parts);
  /// The parts that are left of devices in part use.
  [[nodiscard]] Parts loose_parts() const { return loose_; }

 private:
  [[nodiscard]] bool is_in(HostIndex host, std::optional<std::uint32_t> cell) const {
    return !cell || cluster_.hosts[host].cell == *cell;
  }
  [[nodiscard]] std::vector<HostIndex> choose(const PlaceRequest& request,
                                              std::optional<DeviceType> type) const;
  std::vector<DeviceIndex> take_from(const std::vector<HostIndex>& hosts, std::uint32_t workers);
  void take_one(DeviceIndex device);
  [[nodiscard]] std::uint32_t room_of(DeviceIndex device) const;
  void set_room(DeviceIndex device, std::uint32_t room);

  const Cluster& cluster_;
  std::vector<std::uint32_t> free_;  // of each host; 0 where it is not usable
  std::vector<bool> usable_;
  std::vector<bool> is_free_;
  std::uint32_t all_free_ = 0;
  std::vector<std::uint32_t> room_;                              // of each device in part use
  std::set<std::pair<std::uint32_t, DeviceIndex>> in_part_use_;  // by their room
  Parts loose_ = 0;
};

}  // namespace taut::schedule
