#include "lab/schedule/placement.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "common/check.hpp"

namespace taut::schedule {
namespace {

constexpr HostIndex kNoHost = std::numeric_limits<HostIndex>::max();

}  // namespace

Placement::Placement(const Cluster& cluster)
    : cluster_(cluster),
      free_(cluster.hosts.size()),
      usable_(cluster.hosts.size()),
      is_free_(cluster.devices(), true),
      room_(cluster.devices()) {}

void Placement::set_usable(HostIndex host, bool usable) {
  if (usable_[host] == usable) return;
  const std::uint32_t devices = cluster_.hosts[host].devices;
  TAUT_CHECK(usable || free_[host] == devices, "a host is taken away with jobs on it");
  usable_[host] = usable;
  free_[host] = usable ? devices : 0;
  all_free_ = usable ? all_free_ + devices : all_free_ - devices;
}

std::vector<HostIndex> Placement::choose(const PlaceRequest& request,
                                         std::optional<DeviceType> type) const {
  HostIndex best = kNoHost;
  // A host on loan is taken back, which stops the jobs on it.
  const auto rank = [this](HostIndex host) {
    return std::pair(cluster_.hosts[host].on_loan, free_[host]);
  };
  std::vector<std::uint32_t> of_rack;
  std::uint32_t all = 0;
  for (HostIndex host = 0; host < free_.size(); ++host) {
    const Host& one = cluster_.hosts[host];
    if (free_[host] == 0 || (type && one.type != *type) || !is_in(host, request.cell)) continue;
    if (of_rack.size() <= one.rack) of_rack.resize(one.rack + 1);
    of_rack[one.rack] += free_[host];
    all += free_[host];
    if (free_[host] < request.workers) continue;
    if (best == kNoHost || rank(host) < rank(best)) best = host;
  }
  if (best != kNoHost) return {best};
  if (request.within == Tier::kHost || all < request.workers) return {};
  std::optional<std::uint32_t> rack;
  for (std::uint32_t i = 0; i < of_rack.size(); ++i) {
    if (of_rack[i] >= request.workers && (!rack || of_rack[i] < of_rack[*rack])) rack = i;
  }
  if (!rack && request.within == Tier::kRack) return {};
  std::vector<HostIndex> hosts;
  for (HostIndex host = 0; host < free_.size(); ++host) {
    const Host& one = cluster_.hosts[host];
    if (free_[host] == 0 || (type && one.type != *type) || (rack && one.rack != *rack)) continue;
    if (!is_in(host, request.cell)) continue;
    hosts.push_back(host);
  }
  // The fullest first; the last of them the smallest that still suffices.
  std::ranges::stable_sort(hosts, std::ranges::greater(),
                           [this](HostIndex host) { return free_[host]; });
  std::uint32_t missing = request.workers;
  std::size_t count = 0;
  while (missing > free_[hosts[count]]) missing -= free_[hosts[count++]];
  std::size_t last = count;
  for (std::size_t i = count; i < hosts.size(); ++i) {
    const std::uint32_t has = free_[hosts[i]];
    if (has >= missing && has < free_[hosts[last]]) last = i;
  }
  std::swap(hosts[count], hosts[last]);
  hosts.resize(count + 1);
  return hosts;
}

std::vector<DeviceIndex> Placement::take(const PlaceRequest& request) {
  if (request.workers > all_free_) return {};
  if (request.before != nullptr && request.before->size() == request.workers) {
    const std::vector<DeviceIndex>& before = *request.before;
    const bool fits = std::ranges::all_of(before, [&](DeviceIndex device) {
      const HostIndex host = cluster_.host_of[device];
      return is_free_[device] && usable_[host] && is_in(host, request.cell) &&
             (!request.type || cluster_.hosts[host].type == *request.type);
    });
    if (fits && cluster_.tier_of(before) <= request.within) {
      for (const DeviceIndex device : before) take_one(device);
      return before;
    }
  }
  std::array<std::uint32_t, kDeviceTypes> of_type{};
  for (HostIndex host = 0; host < free_.size(); ++host) {
    if (!is_in(host, request.cell)) continue;
    of_type[static_cast<std::size_t>(cluster_.hosts[host].type)] += free_[host];
  }
  const auto most = static_cast<DeviceType>(std::ranges::max_element(of_type) - of_type.begin());
  std::vector<HostIndex> hosts = choose(request, request.type.value_or(most));
  if (hosts.empty() && !request.type) hosts = choose(request, std::nullopt);
  return take_from(hosts, hosts.empty() ? 0 : request.workers);
}

std::vector<DeviceIndex> Placement::take_more(const std::vector<DeviceIndex>& has,
                                              std::uint32_t more,
                                              std::optional<std::uint32_t> cell) {
  if (more > all_free_) return {};
  const HostIndex home = cluster_.host_of[has.front()];
  std::vector<HostIndex> hosts;
  std::uint32_t free = 0;
  for (HostIndex host = 0; host < free_.size(); ++host) {
    const bool is_alike = cluster_.hosts[host].type == cluster_.hosts[home].type;
    if (free_[host] > 0 && is_alike && is_in(host, cell)) {
      hosts.push_back(host);
      free += free_[host];
    }
  }
  if (more > free) return {};
  const auto distance = [&](HostIndex host) {
    const Host& one = cluster_.hosts[host];
    const bool is_own = std::ranges::any_of(
        has, [&](DeviceIndex device) { return cluster_.host_of[device] == host; });
    if (is_own) return 0;
    return one.rack == cluster_.hosts[home].rack ? 1 : 2;
  };
  std::ranges::stable_sort(hosts, {}, [&](HostIndex host) {
    return std::pair(distance(host), -static_cast<int>(free_[host]));
  });
  return take_from(hosts, more);
}

std::vector<DeviceIndex> Placement::take_from(const std::vector<HostIndex>& hosts,
                                              std::uint32_t workers) {
  std::vector<DeviceIndex> devices;
  devices.reserve(workers);
  for (const HostIndex host : hosts) {
    const Host& one = cluster_.hosts[host];
    for (DeviceIndex i = one.first; i < one.first + one.devices; ++i) {
      if (devices.size() == workers) break;
      if (!is_free_[i]) continue;
      take_one(i);
      devices.push_back(i);
    }
  }
  std::ranges::sort(devices);
  return devices;
}

void Placement::take_one(DeviceIndex device) {
  is_free_[device] = false;
  --free_[cluster_.host_of[device]];
  --all_free_;
}

void Placement::release(const std::vector<DeviceIndex>& devices) {
  for (const DeviceIndex device : devices) {
    is_free_[device] = true;
    ++free_[cluster_.host_of[device]];
    ++all_free_;
  }
}

std::uint32_t Placement::room_of(DeviceIndex device) const {
  if (is_free_[device]) return usable_[cluster_.host_of[device]] ? kPartsOfDevice : 0;
  return in_part_use_.contains({room_[device], device}) ? room_[device] : 0;
}

void Placement::set_room(DeviceIndex device, std::uint32_t room) {
  if (in_part_use_.erase({room_[device], device}) > 0) loose_ -= room_[device];
  room_[device] = room;
  if (room == kPartsOfDevice) return;
  in_part_use_.emplace(room, device);
  loose_ += room;
}

std::vector<DeviceIndex> Placement::take_part(std::uint32_t parts,
                                              const std::vector<DeviceIndex>& before) {
  std::vector<DeviceIndex> found;
  const auto fitting = in_part_use_.lower_bound({parts, 0});
  if (before.size() == 1 && room_of(before.front()) >= parts) {
    found = before;
  } else if (fitting != in_part_use_.end()) {
    found = {fitting->second};
  } else {
    found = take({.workers = 1});
    if (found.empty()) return {};
    release(found);
  }
  const DeviceIndex device = found.front();
  const std::uint32_t room = room_of(device);
  if (is_free_[device]) take_one(device);
  set_room(device, room - parts);
  return found;
}

void Placement::release_part(DeviceIndex device, std::uint32_t parts) {
  const std::uint32_t room = room_[device] + parts;
  set_room(device, room);
  if (room == kPartsOfDevice) release({device});
}

}  // namespace taut::schedule
