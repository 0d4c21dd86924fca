#include "lab/schedule/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <string_view>

namespace taut::schedule {
namespace {

std::uint32_t count_of(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

Result<DeviceType> type_of(std::string_view name) {
  if (const auto type = find_device_type(name)) return *type;
  return invalid(fmt::format("a type of devices must be V100, P100, K80 or T4, is \"{}\"", name));
}

/// The tier of the fewest hosts that `workers` workers fit on, among the eligible hosts.
template <class Counts>
Tier nearest_tier_of(const std::vector<Host>& hosts, std::uint32_t workers, Counts counts) {
  std::uint32_t largest_host = 0;
  std::uint32_t largest_rack = 0;
  std::vector<std::uint32_t> rack;
  for (HostIndex index = 0; index < hosts.size(); ++index) {
    if (!counts(index)) continue;
    const Host& host = hosts[index];
    largest_host = std::max(largest_host, host.devices);
    if (rack.size() <= host.rack) rack.resize(host.rack + 1);
    largest_rack = std::max(largest_rack, rack[host.rack] += host.devices);
  }
  if (workers <= largest_host) return Tier::kHost;
  return workers <= largest_rack ? Tier::kRack : Tier::kCluster;
}

}  // namespace

std::uint32_t Cluster::own_devices() const {
  std::uint32_t own = 0;
  for (const Host& host : hosts) own += host.on_loan ? 0 : host.devices;
  return own;
}

void Cluster::add_hosts(std::uint32_t count, std::uint32_t devices, DeviceType type,
                        std::uint32_t rack_hosts, bool on_loan) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto index = static_cast<HostIndex>(hosts.size());
    hosts.push_back({.type = type,
                     .rack = rack_hosts == 0 ? 0 : index / rack_hosts,
                     .first = this->devices(),
                     .devices = devices,
                     .on_loan = on_loan});
    host_of.insert(host_of.end(), devices, index);
  }
}

Tier Cluster::nearest_tier(std::uint32_t workers) const {
  return nearest_tier_of(hosts, workers, [this](HostIndex host) { return !hosts[host].on_loan; });
}

Tier Cluster::nearest_tier(std::uint32_t workers, DeviceType type,
                           const std::vector<bool>& usable) const {
  return nearest_tier_of(hosts, workers,
                         [&](HostIndex host) { return usable[host] && hosts[host].type == type; });
}

Tier Cluster::tier_of(const std::vector<DeviceIndex>& devices) const {
  Tier tier = Tier::kHost;
  const HostIndex first = host_of[devices.front()];
  for (const DeviceIndex device : devices) {
    if (host_of[device] == first) continue;
    if (hosts[host_of[device]].rack != hosts[first].rack) return Tier::kCluster;
    tier = Tier::kRack;
  }
  return tier;
}

namespace {

Result<void> add_parsed(Cluster& cluster, const std::string& text, std::uint32_t rack_hosts,
                        bool on_loan) {
  std::string_view rest = text;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const std::size_t colon = part.find(':');
    const std::string_view size = part.substr(0, colon);
    const std::size_t times = size.find('x');
    const std::uint32_t hosts =
        times == std::string_view::npos ? 0 : count_of(size.substr(0, times));
    const std::uint32_t devices = hosts == 0 ? 0 : count_of(size.substr(times + 1));
    if (devices == 0) {
      return invalid(fmt::format(
          "hosts must be HOSTSxDEVICES[:TYPE], both at least 1, e.g. 16x4:V100, is \"{}\"", part));
    }
    if (std::uint64_t{hosts} * devices + cluster.devices() > kMaxDevices) {
      return invalid(fmt::format("a cluster must have at most {} devices, \"{}\" has more",
                                 kMaxDevices, text));
    }
    DeviceType type = DeviceType::kV100;
    if (colon != std::string_view::npos) {
      TAUT_TRY(type, type_of(part.substr(colon + 1)));
    }
    cluster.add_hosts(hosts, devices, type, rack_hosts, on_loan);
    if (part.size() == rest.size()) return ok();
    rest.remove_prefix(part.size() + 1);
  }
}

}  // namespace

Result<Cluster> parse_cluster(const std::string& text, std::uint32_t rack_hosts) {
  Cluster cluster;
  TAUT_TRY(add_parsed(cluster, text, rack_hosts, false));
  return cluster;
}

Result<void> lend_by_night(Cluster& cluster, const std::string& hosts, std::uint32_t rack_hosts,
                           double until_s) {
  constexpr double kHour = 3600;
  constexpr double kDay = 24 * kHour;
  const std::size_t own = cluster.hosts.size();
  TAUT_TRY(add_parsed(cluster, hosts, rack_hosts, true));
  const auto all = static_cast<double>(cluster.hosts.size() - own);
  for (double at = 0; at < until_s; at += kHour) {
    const double part = 0.5 + 0.5 * std::cos(2 * std::numbers::pi * at / kDay);
    cluster.loans.push_back({at, static_cast<std::uint32_t>(std::lround(all * part))});
  }
  return ok();
}

}  // namespace taut::schedule
