#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "lab/schedule/models.hpp"

namespace taut::schedule {

using DeviceIndex = std::uint32_t;
using HostIndex = std::uint32_t;
inline constexpr std::uint32_t kMaxDevices = 100000;  // of a cluster

/// How near a job's devices are to each other.
enum class Tier : std::uint8_t { kHost, kRack, kCluster };
inline constexpr std::size_t kTiers = 3;

struct Host {
  DeviceType type = DeviceType::kV100;
  std::uint32_t rack = 0;
  DeviceIndex first = 0;      // its devices are numbered from this one on
  std::uint32_t devices = 0;  // how many
  bool on_loan = false;       // of another cluster, which lends it for a part of the time
  std::uint32_t cell = 0;     // the part of the cluster that it is in, for policies that divide it
};

/// From this time on, `hosts` of the hosts that may be lent are lent.
struct LoanStep {
  double at_s = 0;
  std::uint32_t hosts = 0;
};

/// Hosts with devices, in racks, and the links between them.
struct Cluster {
  std::vector<Host> hosts;
  std::vector<HostIndex> host_of;  // a device's
  std::vector<LoanStep> loans;     // ascending; nothing is lent before the first one
  /// Gigabits a second between two devices of a host, two hosts of a rack, two racks.
  std::array<double, kTiers> gbps = {96, 25, 10};

  [[nodiscard]] std::uint32_t devices() const { return static_cast<std::uint32_t>(host_of.size()); }
  /// Without those that may be lent.
  [[nodiscard]] std::uint32_t own_devices() const;
  /// Adds hosts at the end. REQUIRES devices > 0.
  void add_hosts(std::uint32_t count, std::uint32_t devices, DeviceType type,
                 std::uint32_t rack_hosts, bool on_loan = false);
  /// The tier of the fewest own hosts that `workers` fit on.
  [[nodiscard]] Tier nearest_tier(std::uint32_t workers) const;
  /// Overload for hosts of one type that are usable; `usable` has an entry for each host.
  [[nodiscard]] Tier nearest_tier(std::uint32_t workers, DeviceType type,
                                  const std::vector<bool>& usable) const;
  /// REQUIRES  not empty
  [[nodiscard]] Tier tier_of(const std::vector<DeviceIndex>& devices) const;
};

/// Lends the cluster hosts of another one that serves users by day: all of them at midnight, when a
/// trace starts, none at noon, along a cosine in between, in steps of an hour until `until_s`.
/// hosts    as for parse_cluster()
/// Source   of a daily cycle of inference: Li et al., "Lyra: Elastic Scheduling for Deep Learning
///          Clusters", EuroSys 2023, section 2; the cosine is an assumption
/// Errors   as for parse_cluster()
[[nodiscard]] Result<void> lend_by_night(Cluster& cluster, const std::string& hosts,
                                         std::uint32_t rack_hosts, double until_s);

/// "16x4" or "8x4:V100,8x4:K80": hosts x devices of each, and their type, V100 if none is named.
/// rack_hosts  hosts in a rack; 0: all are in one
/// Errors    what is wrong with the text, and in which part
[[nodiscard]] Result<Cluster> parse_cluster(const std::string& text, std::uint32_t rack_hosts);

}  // namespace taut::schedule
