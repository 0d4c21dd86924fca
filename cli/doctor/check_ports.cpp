#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/doctor/checks.hpp"
#include "cli/views/draw.hpp"
#include "proto/config/cluster_config.hpp"

namespace taut::cli {
namespace {

struct Listener {
  std::string what;     // "coordinator"
  std::string address;  // "host:port"
  std::string setting;  // that moves it elsewhere
};

bool is_chosen_by_the_system(const std::string& address) {
  return address.ends_with(":0");
}

std::vector<Listener> listeners_of(const pb::ClusterConfig& config) {
  std::vector<Listener> all;
  const pb::ServerConfig& server = config.server();
  if (server.has_coordinator()) {
    const pb::CoordinatorConfig& own = server.coordinator();
    all.push_back({"coordinator", own.has_address() ? own.address() : config.coordinator_address(),
                   "coordinator_address"});
    if (config.has_http()) {
      all.push_back({"dashboard", config.http().dashboard(), "http { dashboard }"});
    }
  } else if (config.has_http()) {
    all.push_back({"metrics", config.http().metrics(), "http { metrics }"});
  }
  for (std::uint32_t i = 0; config.has_server() && i < server.shards(); ++i) {
    if (server.port_base() == 0) break;
    all.push_back({fmt::format("shard {}", i),
                   join_address(server.listen(), server.port_base() + i), "server { port_base }"});
  }
  return all;
}

Finding finding_of(const Listener& one, const PortFacts& port, bool coordinator_answers) {
  const std::string place = fmt::format("{} ({})", one.address, one.what);
  const std::string elsewhere = fmt::format("set {} to another", one.setting);
  switch (port.state) {
    case PortFacts::State::kFree:
      return fine("port", place + " is free");
    case PortFacts::State::kElsewhere:
      return trouble(
          "port", place + " is not an address of this machine",
          fmt::format("set {} to one that is, or start this process on that machine", one.setting));
    case PortFacts::State::kForbidden:
      return trouble("port", place + ": this user may not listen there",
                     elsewhere + ", above 1023");
    case PortFacts::State::kUnknown:
      return trouble("port", place + ": this host's name is unknown",
                     elsewhere + ", or correct the name's entry in /etc/hosts or the DNS");
    case PortFacts::State::kHeld:
      break;
  }
  const std::string held = fmt::format(
      "{} is held by {}", place, port.holder.empty() ? "a process of another user" : port.holder);
  // The cluster of this config already runs, or another one at its address.
  if (port.holder.starts_with("tautline-")) {
    if (coordinator_answers) return fine("port", held + ", of the cluster that runs");
    return warning("port", held + ", although no coordinator answers",
                   "it may be starting or ending; look again, or end that process");
  }
  return trouble("port", held, fmt::format("end that process, or {} one", elsewhere));
}

}  // namespace

Findings check_ports(const pb::ClusterConfig& config, bool coordinator_answers, Machine& machine) {
  Findings findings;
  for (const Listener& one : listeners_of(config)) {
    if (is_chosen_by_the_system(one.address)) {
      findings.push_back(fine("port", fmt::format("{}: a port that the system chooses", one.what)));
      continue;
    }
    findings.push_back(finding_of(one, machine.port(one.address), coordinator_answers));
  }
  if (config.has_server() && config.server().port_base() == 0) {
    findings.push_back(fine(
        "port", fmt::format("{}: ports that the system chooses, on {}",
                            counted(config.server().shards(), "shard"), config.server().listen())));
  }
  return findings;
}

}  // namespace taut::cli
