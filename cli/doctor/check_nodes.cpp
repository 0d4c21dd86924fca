#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/doctor/checks.hpp"
#include "cli/doctor/node_facts.hpp"
#include "cli/views/draw.hpp"

namespace taut::cli {
namespace {

// As for this machine's clock, in check_cluster.cpp.
constexpr double kSkewLimit_s = 0.1;
constexpr unsigned kOthers = 077;

std::optional<ClockOffset> offset_of(const pb::NodeFacts& node) {
  std::vector<ClockReading> readings;
  for (const pb::NodeClockReading& one : node.clock()) {
    readings.push_back({one.sent(), one.received(), one.coordinator_s()});
  }
  return clock_offset(readings);
}

}  // namespace

std::string title_of(const pb::NodeFacts& node) {
  return node.host().empty() ? node.name() : fmt::format("{} ({})", node.name(), node.host());
}

std::string processes(std::size_t number) {
  return fmt::format("{} {}", number, number == 1 ? "process" : "processes");
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

Findings check_answers(const ClusterFacts& cluster, const std::string& own_build) {
  Findings findings;
  if (cluster.nodes.empty() && cluster.silent.empty()) {
    return {trouble("nodes", "no server and no worker has joined",
                    "start them with the coordinator's address, and look at their logs")};
  }
  if (!cluster.silent.empty()) {
    findings.push_back(
        trouble("nodes",
                fmt::format("{} of {} have not answered within {:g} s: {}", cluster.silent.size(),
                            processes(cluster.silent.size() + cluster.nodes.size()),
                            cluster.waited_s, some_of(cluster.silent)),
                "they are stopped, lost, or of a release without this check: see their logs"));
  }
  std::map<std::string, std::vector<std::string>> builds;
  std::map<std::string, int> hosts;
  for (const pb::NodeFacts& node : cluster.nodes) {
    builds[node.build()].push_back(title_of(node));
    ++hosts[node.host()];
  }
  if (cluster.nodes.empty()) return findings;
  findings.push_back(
      fine("nodes", fmt::format("{} of {} answered", processes(cluster.nodes.size()),
                                counted(static_cast<std::int64_t>(hosts.size()), "host"))));
  if (builds.size() == 1 && builds.contains(own_build)) return findings;
  for (const auto& [build, names] : builds) {
    if (build == own_build) continue;
    findings.push_back(
        warning("release",
                fmt::format("{} run {}, this command is of {}", some_of(names), build, own_build),
                "install the same release on every machine"));
  }
  return findings;
}

Findings check_clocks(const ClusterFacts& cluster) {
  std::vector<std::string> skewed;
  std::vector<std::string> unknown;
  double worst = 0;
  std::string where;
  for (const pb::NodeFacts& node : cluster.nodes) {
    const auto offset = offset_of(node);
    if (!offset) {
      unknown.push_back(title_of(node));
      continue;
    }
    if (where.empty() || std::abs(offset->seconds) > std::abs(worst)) {
      worst = offset->seconds;
      where = title_of(node);
    }
    if (std::abs(offset->seconds) - offset->uncertain_by > kSkewLimit_s) {
      // The sign is that of the coordinator's clock minus the node's.
      skewed.push_back(fmt::format("{} is {:.0f} ms {}", title_of(node),
                                   std::abs(offset->seconds) * 1e3,
                                   offset->seconds > 0 ? "behind" : "ahead"));
    }
  }
  Findings findings;
  if (!unknown.empty()) {
    findings.push_back(warning(
        "clocks", fmt::format("{} could not ask the coordinator for its time", some_of(unknown)),
        "see whether they reach the coordinator, and their logs"));
  }
  if (!skewed.empty()) {
    findings.push_back(warning(
        "clocks", fmt::format("compared with the coordinator's, {}", some_of(skewed)),
        "training does not depend on it; logs, metrics and timelines cannot be compared: set the "
        "clocks by chrony or systemd-timesyncd"));
  } else if (!where.empty()) {
    findings.push_back(fine("clocks", fmt::format("at most {:.1f} ms from the coordinator's, at {}",
                                                  std::abs(worst) * 1e3, where)));
  }
  return findings;
}

Findings check_node_keys(const ClusterFacts& cluster) {
  Findings findings;
  std::vector<std::string> insecure;
  std::map<std::string, std::vector<std::string>> admitted;  // servers by what they admit
  std::size_t keys = 0;
  for (const pb::NodeFacts& node : cluster.nodes) {
    const pb::KeyFacts& own = node.keys();
    if (own.insecure()) {
      insecure.push_back(title_of(node));
      continue;
    }
    if ((own.mode() & kOthers) != 0) {
      findings.push_back(
          trouble("keys",
                  fmt::format("{}: {} has the mode {:04o}: other users may use it", title_of(node),
                              own.folder(), own.mode()),
                  fmt::format("chmod 700 {} over there; a daemon that starts now would refuse it",
                              own.folder())));
    }
    if (!own.error().empty()) {
      findings.push_back(
          trouble("keys", fmt::format("{}: {}", title_of(node), own.error()),
                  "repair the folder: what it listed last holds until the process ends"));
    }
    if (!node.is_server()) continue;
    std::string list;
    for (const std::string& key : own.admitted()) list += key + "\n";
    admitted[list].push_back(title_of(node));
    keys = static_cast<std::size_t>(own.admitted_size());
  }
  if (admitted.size() > 1) {
    std::vector<std::string> sides;
    sides.reserve(admitted.size());
    for (const auto& [list, names] : admitted) {
      sides.push_back(
          fmt::format("{}: {}", some_of(names), counted(std::ranges::count(list, '\n'), "key")));
    }
    findings.push_back(trouble(
        "keys", fmt::format("servers admit different keys: {}", some_of(sides)),
        "copy admitted/ of the folder in which tautline keys add and revoke were run to the "
        "others"));
  }
  if (!insecure.empty()) {
    findings.push_back(warning("keys", fmt::format("{} use no keys", some_of(insecure)),
                               "leave out insecure: true, unless no other user reaches their "
                               "ports"));
  }
  if (findings.empty() && !cluster.nodes.empty()) {
    findings.push_back(
        fine("keys", fmt::format("every folder is private, and servers admit the same {}",
                                 counted(static_cast<std::int64_t>(keys), "key"))));
  }
  return findings;
}

}  // namespace taut::cli
