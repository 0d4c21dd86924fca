#include "cli/doctor/cluster_doctor.hpp"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "common/time.hpp"

namespace taut::cli {
namespace {

constexpr auto kBetweenAsks = std::chrono::milliseconds(100);

std::uint64_t check_number() {
  std::random_device device;
  return ((static_cast<std::uint64_t>(device()) << 32U) | device()) | 1U;
}

}  // namespace

Result<ClusterFacts> examine_cluster(ControlClient& client, const JobNeeds& needs,
                                     std::uint32_t transfer_bytes, double wait_s) {
  pb::CheckNodes check;
  check.set_number(check_number());
  check.set_transfer_bytes(transfer_bytes);
  for (const NeededPath& needed : needs.paths) {
    const auto& paths = check.paths();
    if (std::ranges::find(paths, needed.path) == paths.end()) check.add_paths(needed.path);
  }
  const TimePoint until = steady_now() + from_seconds(wait_s);
  while (true) {
    TAUT_TRY(pb::CheckNodesReply reply, client.check_nodes(check));
    const bool is_late = steady_now() >= until;
    if (reply.waits_for().empty() || is_late) {
      ClusterFacts cluster;
      cluster.nodes.assign(reply.nodes().begin(), reply.nodes().end());
      cluster.silent.assign(reply.waits_for().begin(), reply.waits_for().end());
      cluster.waited_s = wait_s;
      return cluster;
    }
    std::this_thread::sleep_for(kBetweenAsks);
  }
}

Findings judge_cluster(const ClusterFacts& cluster, const JobNeeds& needs,
                       const std::string& own_build) {
  Findings findings = check_answers(cluster, own_build);
  for (Findings more :
       {check_links(cluster, needs), check_clocks(cluster), check_node_keys(cluster),
        check_paths(cluster, needs), check_memory(cluster, needs)}) {
    for (Finding& finding : more) findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace taut::cli
