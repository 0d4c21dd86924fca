#include "lab/training/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "common/check.hpp"

namespace taut::lab {
namespace {

pb::LabLink default_loopback() {
  pb::LabLink link;
  link.set_gbit_per_s(40);
  link.set_latency_us(20);
  return link;
}

const pb::LabLink& link_of(const pb::LabCluster& cluster, const std::string& name) {
  const auto found = std::ranges::find(cluster.link(), name, &pb::LabLink::name);
  TAUT_CHECK(found != cluster.link().end(), "a checked cluster's links are all there");
  return *found;
}

}  // namespace

Result<std::unique_ptr<Topology>> Topology::make(const pb::LabCluster& cluster,
                                                 std::uint32_t servers, std::uint32_t workers,
                                                 std::uint64_t seed) {
  std::unique_ptr<Topology> topology(new Topology(servers, seed));
  topology->add_hosts(cluster);
  topology->add_racks(cluster);
  TAUT_TRY(topology->place(cluster, servers, workers));
  topology->give_devices(workers);
  if (cluster.sharing() == pb::LabCluster::FAIR) topology->share_fairly();
  return topology;
}

std::size_t Topology::add_pipe(const std::string& name, const pb::LabLink& link) {
  constexpr double kBitsPerByte = 8;
  constexpr double kBitsPerUs = 1e3;  // in a Gbit/s
  Pipe& pipe = pipes_.emplace_back();
  pipe.name = name;
  pipe.us_per_byte = kBitsPerByte / (link.gbit_per_s() * kBitsPerUs);
  pipe.latency_us = link.latency_us();
  pipe.jitter_us = link.jitter_us();
  pipe.loss = link.loss();
  keep_order_ |= pipe.jitter_us > 0;
  return pipes_.size() - 1;
}

void Topology::add_hosts(const pb::LabCluster& cluster) {
  for (const pb::LabHost& kind : cluster.host()) {
    for (std::uint32_t i = 0; i < kind.count(); ++i) {
      Host& host = hosts_.emplace_back();
      host.name = kind.count() == 1 ? kind.name() : fmt::format("{}{}", kind.name(), i);
      host.kind = kind.name();
      host.cores = kind.cores();
      host.speed = kind.speed();
      host.price_per_hour = kind.price_per_hour();
      const pb::LabLink loopback =
          kind.has_loopback() ? link_of(cluster, kind.loopback()) : default_loopback();
      host.loopback = add_pipe(host.name + " loopback", loopback);
      if (kind.has_link()) {
        host.out = add_pipe(host.name + " out", link_of(cluster, kind.link()));
        host.in = add_pipe(host.name + " in", link_of(cluster, kind.link()));
      }
      add_devices(kind, cluster);
      const auto rack = std::ranges::find(cluster.rack(), kind.rack(), &pb::LabRack::name);
      if (rack == cluster.rack().end()) continue;
      host.rack = static_cast<std::size_t>(rack - cluster.rack().begin()) + 1;
    }
  }
}

/// Adds devices to the newest host.
void Topology::add_devices(const pb::LabHost& kind, const pb::LabCluster& cluster) {
  Host& host = hosts_.back();
  host.first_device = devices_.size();
  host.devices = kind.devices();
  for (std::uint32_t i = 0; i < kind.devices(); ++i) {
    Device& device = devices_.emplace_back();
    device.host = hosts_.size() - 1;
    device.has_link = kind.has_island();
    if (!device.has_link) continue;
    const pb::LabLink& link = link_of(cluster, kind.island());
    device.out = add_pipe(fmt::format("{} device{} out", host.name, i), link);
    device.in = add_pipe(fmt::format("{} device{} in", host.name, i), link);
  }
}

void Topology::add_racks(const pb::LabCluster& cluster) {
  std::set<std::string_view> hosts;
  for (const Host& host : hosts_) hosts.insert(host.name);
  for (const pb::LabRack& rack : cluster.rack()) {
    pb::LabLink link;
    if (rack.has_link()) {
      link = link_of(cluster, rack.link());
    } else {
      double sum = 0;
      for (const pb::LabHost& host : cluster.host()) {
        if (host.rack() != rack.name()) continue;
        const pb::LabLink& card = link_of(cluster, host.link());
        if (sum == 0) link = card;
        sum += host.count() * card.gbit_per_s();
      }
      link.set_gbit_per_s(sum / rack.oversubscription());
    }
    // A host's card may already have that name.
    const std::string name = hosts.contains(rack.name()) ? "rack " + rack.name() : rack.name();
    const std::size_t out = add_pipe(name + " out", link);
    racks_.push_back({out, add_pipe(name + " in", link)});
  }
}

/// Fills the hosts in turn, one process on each at a time, while they have places.
Result<void> Topology::place(const pb::LabCluster& cluster, std::uint32_t servers,
                             std::uint32_t workers) {
  const auto fill = [&](std::uint32_t count, const char* what, auto places) -> Result<void> {
    std::uint32_t placed = 0;
    for (std::uint32_t round = 0; placed < count; ++round) {
      const std::uint32_t before = placed;
      std::size_t host = 0;
      for (const pb::LabHost& kind : cluster.host()) {
        for (std::uint32_t i = 0; i < kind.count(); ++i, ++host) {
          if (places(kind) > round && placed < count) {
            host_of_.push_back(host);
            ++placed;
          }
        }
      }
      if (placed > before) continue;
      return invalid(
          fmt::format("the cluster has places for {} {}, {} are requested; add hosts, "
                      "or {} to a host",
                      placed, what, count, what));
    }
    return ok();
  };
  host_of_ = {0, 0};
  TAUT_TRY(fill(servers, "servers", [](const pb::LabHost& host) { return host.servers(); }));
  host_of_[kCoordinator] = host_of_[kUser] = host_of_[server_node(0)];
  return fill(workers, "workers", [](const pb::LabHost& host) { return host.workers(); });
}

double Topology::price_per_hour() const {
  double price = 0;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    const bool is_used = std::ranges::find(host_of_, host) != host_of_.end();
    if (is_used) price += hosts_[host].price_per_hour;
  }
  return price;
}

/// Assigns each host's devices to its workers in turn.
void Topology::give_devices(std::uint32_t workers) {
  device_of_.resize(host_of_.size());
  std::vector<std::size_t> given(hosts_.size());
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    const sim::NodeId node = worker_node(worker);
    const Host& host = hosts_[host_of_[node]];
    if (host.devices == 0) continue;
    device_of_[node] = host.first_device + given[host_of_[node]]++ % host.devices;
  }
}

const Topology::Device* Topology::port_of(sim::NodeId node) const {
  const auto device = device_of_[node];
  return device && devices_[*device].has_link ? &devices_[*device] : nullptr;
}

FairLinks::Way Topology::way_of(sim::NodeId from, sim::NodeId to) const {
  const Host& sender = hosts_[host_of_[from]];
  const Host& receiver = hosts_[host_of_[to]];
  const Device* const out = port_of(from);
  const Device* const in = port_of(to);
  FairLinks::Way way;
  if (out != nullptr) way.add(out->out);
  if (&sender == &receiver) {
    if (out == nullptr && in == nullptr) way.add(sender.loopback);
  } else {
    way.add(sender.out);
    if (sender.rack != receiver.rack) {
      if (sender.rack > 0) way.add(racks_[sender.rack - 1].out);
      if (receiver.rack > 0) way.add(racks_[receiver.rack - 1].in);
    }
    way.add(receiver.in);
  }
  if (in != nullptr) way.add(in->in);
  return way;
}

}  // namespace taut::lab
