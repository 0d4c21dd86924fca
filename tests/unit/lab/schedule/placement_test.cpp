// Which devices a job gets.
#include "lab/schedule/placement.hpp"

#include <map>
#include <random>

#include "server/coordinator/queue/worker_pool.hpp"
#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

using Devices = std::vector<DeviceIndex>;

Placement all_usable(const Cluster& cluster) {
  Placement placement(cluster);
  for (HostIndex host = 0; host < cluster.hosts.size(); ++host) placement.set_usable(host, true);
  return placement;
}

TEST_CASE("a cluster is parsed, or refused with what is wrong", "[schedule]") {
  const Cluster cluster = test_cluster("2x4:V100,3x8:K80", 2);
  CHECK(cluster.devices() == 32);
  CHECK(cluster.hosts[1].type == DeviceType::kV100);
  CHECK(cluster.hosts[2].type == DeviceType::kK80);
  CHECK(cluster.hosts[2].first == 8);
  CHECK(cluster.hosts[4].rack == 2);
  CHECK(parse_cluster("16", 0).error().message ==
        "hosts must be HOSTSxDEVICES[:TYPE], both at least 1, e.g. 16x4:V100, is \"16\"");
  CHECK(parse_cluster("0x4", 0).error().message ==
        "hosts must be HOSTSxDEVICES[:TYPE], both at least 1, e.g. 16x4:V100, is \"0x4\"");
  CHECK(parse_cluster("2x4,", 0).error().message ==
        "hosts must be HOSTSxDEVICES[:TYPE], both at least 1, e.g. 16x4:V100, is \"\"");
  CHECK(parse_cluster("2x4:V200", 0).error().message ==
        "a type of devices must be V100, P100, K80 or T4, is \"V200\"");
  CHECK(parse_cluster("100000x4", 0).error().message ==
        "a cluster must have at most 100000 devices, \"100000x4\" has more");
}

TEST_CASE("a job is placed on the host that it fills best, or on as few as can be", "[schedule]") {
  const Cluster cluster = test_cluster("3x4");
  Placement placement = all_usable(cluster);
  CHECK(placement.take({.workers = 3}) == Devices{0, 1, 2});
  CHECK(placement.take({.workers = 1}) == Devices{3});
  CHECK(placement.take({.workers = 6}) == Devices{4, 5, 6, 7, 8, 9});
  CHECK(placement.take({.workers = 3}).empty());
  placement.release({0, 1, 2});
  CHECK(placement.take({.workers = 5}) == Devices{0, 1, 2, 10, 11});
  CHECK(placement.free_devices() == 0);
}

TEST_CASE("a job waits for a near place where it asks for one", "[schedule]") {
  const Cluster cluster = test_cluster("4x2", 2);
  Placement placement = all_usable(cluster);
  CHECK(placement.take({.workers = 1}) == Devices{0});
  CHECK(placement.take({.workers = 4, .within = Tier::kHost}).empty());
  CHECK(placement.take({.workers = 4, .within = Tier::kRack}) == Devices{4, 5, 6, 7});
  CHECK(placement.take({.workers = 3, .within = Tier::kHost}).empty());
  CHECK(placement.take({.workers = 3, .within = Tier::kRack}) == Devices{1, 2, 3});
}

TEST_CASE("parts of devices are taken where they fit best, and are whole once all are back",
          "[schedule]") {
  const Cluster cluster = test_cluster("2x2");
  Placement placement = all_usable(cluster);
  CHECK(placement.take_part(600, {}) == Devices{0});
  CHECK(placement.take_part(700, {}) == Devices{1});
  CHECK(placement.free_devices() == 2);
  CHECK(placement.loose_parts() == 400 + 300);
  // The fullest that has room, and then one that is free.
  CHECK(placement.take_part(300, {}) == Devices{1});
  CHECK(placement.take_part(350, {}) == Devices{0});
  CHECK(placement.take_part(100, {}) == Devices{2});
  CHECK(placement.loose_parts() == 50 + 0 + 900);
  CHECK(placement.take({.workers = 2}).empty());
  placement.release_part(0, 600);
  placement.release_part(0, 350);
  CHECK(placement.free_devices() == 2);
  // Where it ran last, although another device is fuller.
  CHECK(placement.take_part(200, {3}) == Devices{3});
  CHECK(placement.take({.workers = 1}) == Devices{0});
  CHECK(placement.take_part(950, {}).empty());
  placement.release_part(1, 700);
  CHECK(placement.take_part(700, {}) == Devices{1});
}

TEST_CASE("a job gets devices of the type that it asks for, or those it had", "[schedule]") {
  const Cluster cluster = test_cluster("1x4:V100,1x4:K80");
  Placement placement = all_usable(cluster);
  CHECK(placement.take({.workers = 2, .type = DeviceType::kK80}) == Devices{4, 5});
  CHECK(placement.take({.workers = 3, .type = DeviceType::kK80}).empty());
  const Devices before = {6, 7};
  CHECK(placement.take({.workers = 2, .before = &before}) == before);
  CHECK(placement.take({.workers = 2, .before = &before}) == Devices{0, 1});
}

TEST_CASE("hosts are chosen as the coordinator chooses them", "[schedule]") {
  const std::uint64_t seed = 20261123;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    Cluster cluster;
    const auto hosts = static_cast<std::uint32_t>(1 + random() % 8);
    // All in one rack, or this many in each.
    const auto rack_hosts = static_cast<std::uint32_t>(random() % 4);
    for (std::uint32_t i = 0; i < hosts; ++i) {
      cluster.add_hosts(1, static_cast<std::uint32_t>(1 + random() % 8), DeviceType::kV100,
                        rack_hosts);
    }
    const auto name_of = [&cluster](DeviceIndex device) {
      const HostIndex host = cluster.host_of[device];
      return std::to_string(cluster.hosts[host].rack) + "/" + std::to_string(host);
    };
    Placement placement = all_usable(cluster);
    for (DeviceIndex device = 0; device < cluster.devices(); ++device) {
      // Any part of the devices is taken already.
      const Devices one = {device};
      if (random() % 3 == 0) REQUIRE(placement.take({.workers = 1, .before = &one}) == one);
    }
    std::vector<std::string> of_idle;
    for (DeviceIndex device = 0; device < cluster.devices(); ++device) {
      if (!placement.is_free(device)) continue;
      of_idle.push_back(name_of(device));
    }
    if (of_idle.empty()) continue;
    const auto workers = static_cast<std::uint32_t>(1 + random() % of_idle.size());
    std::map<std::string, int> live;
    for (const std::size_t i : choose_workers(of_idle, workers)) ++live[of_idle[i]];
    std::map<std::string, int> ours;
    for (const DeviceIndex device : placement.take({.workers = workers})) {
      ++ours[name_of(device)];
    }
    CHECK(ours == live);
  }
}

}  // namespace
}  // namespace taut::schedule
