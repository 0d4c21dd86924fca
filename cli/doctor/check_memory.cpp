#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cli/doctor/node_facts.hpp"
#include "cli/views/draw.hpp"

namespace taut::cli {
namespace {

// What a worker holds of the parameters: the values that it computes with, those that arrive, and a
// gradient. Activations are not counted: `tautline plan` shows them.
constexpr std::uint64_t kCopiesOfWorker = 3;

std::string size(std::uint64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1024.0 * 1024.0);
  if (mebibytes < 1024) return fmt::format("{:.1f} MiB", mebibytes);
  return fmt::format("{:.1f} GiB", mebibytes / 1024);
}

struct Host {
  std::uint64_t needed = 0;
  std::uint64_t available = 0;
  std::vector<std::string> processes;
};

/// What each server holds: an equal part of the values and of the rule's states, once more for each
/// backup of a shard.
std::uint64_t bytes_of_server(const JobNeeds& needs, std::size_t servers) {
  const std::uint64_t whole =
      needs.parameter_bytes * (1 + static_cast<std::uint64_t>(needs.states));
  const std::uint64_t count = std::max<std::size_t>(servers, 1);
  return whole * std::min<std::uint64_t>(1 + needs.backups, count) / count;
}

}  // namespace

Findings check_memory(const ClusterFacts& cluster, const JobNeeds& needs) {
  if (needs.job.empty() || needs.parameter_bytes == 0 || cluster.nodes.empty()) return {};
  const auto servers = static_cast<std::size_t>(
      std::ranges::count_if(cluster.nodes, [](const auto& node) { return node.is_server(); }));
  const std::uint64_t of_server = bytes_of_server(needs, servers);
  const std::uint64_t of_worker = kCopiesOfWorker * needs.parameter_bytes;
  Findings findings;
  std::map<std::string, Host> hosts;
  for (const pb::NodeFacts& node : cluster.nodes) {
    const std::uint64_t needed = node.is_server() ? of_server : of_worker;
    const std::uint64_t left = node.table_limit_bytes() - node.table_bytes();
    if (node.is_server() && left < needed) {
      findings.push_back(trouble(
          "memory",
          fmt::format("{} needs {} for its part of {} and has {} left for tables", title_of(node),
                      size(needed), needs.job, size(left)),
          "raise server { memory_limit }, add servers, or wait until the jobs there have ended"));
    }
    if (!node.is_server() && node.device_free_bytes() > 0 && node.device_free_bytes() < needed) {
      findings.push_back(trouble(
          "memory",
          fmt::format("the devices of {} have {} free; the parameters of {} alone take {}",
                      title_of(node), size(node.device_free_bytes()), needs.job, size(needed)),
          "end what else uses the device, or see tautline plan for a budget"));
    }
    Host& host = hosts[node.host()];
    host.needed += needed;
    host.available = node.available_bytes();
    host.processes.push_back(node.name());
  }
  for (const auto& [name, host] : hosts) {
    if (host.available == 0 || host.needed <= host.available) continue;
    findings.push_back(trouble(
        "memory",
        fmt::format("{} ({}) needs {} for the parameters of {} and has {} available", name,
                    some_of(host.processes), size(host.needed), needs.job, size(host.available)),
        "put fewer processes on this machine, or more servers on others"));
  }
  if (findings.empty()) {
    findings.push_back(fine(
        "memory",
        fmt::format("{} has {} of parameters: {} at each of {}{}, {} at each worker, activations "
                    "aside",
                    needs.job, size(needs.parameter_bytes), size(of_server),
                    counted(static_cast<std::int64_t>(servers), "server"),
                    needs.backups > 0 && servers > 1 ? " with backups" : "", size(of_worker))));
  }
  return findings;
}

}  // namespace taut::cli
