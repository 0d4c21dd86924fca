#include "cli/doctor/cluster_doctor.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "common/time.hpp"

namespace taut::cli {
namespace {

constexpr Duration kBetweenAsks = std::chrono::milliseconds(100);
// An answer that takes longer is requested again, after a call of LookAround.
constexpr Duration kAnswerWithin = std::chrono::milliseconds(500);
constexpr Duration kSilenceLimit = std::chrono::seconds(10);

std::uint64_t check_number() {
  std::random_device device;
  return ((static_cast<std::uint64_t>(device()) << 32U) | device()) | 1U;
}

}  // namespace

Result<ClusterFacts> examine_cluster(ControlClient& client, const JobNeeds& needs,
                                     std::uint32_t transfer_bytes, double wait_s,
                                     const LookAround& look_around) {
  pb::CheckNodes check;
  check.set_number(check_number());
  check.set_transfer_bytes(transfer_bytes);
  for (const NeededPath& needed : needs.paths) {
    const auto& paths = check.paths();
    if (std::ranges::find(paths, needed.path) == paths.end()) check.add_paths(needed.path);
  }
  const TimePoint until = steady_now() + from_seconds(wait_s);
  client.set_deadline(kAnswerWithin);
  TimePoint answered = steady_now();
  while (true) {
    const auto reply = client.check_nodes(check);
    const TimePoint now = steady_now();
    if (reply) answered = now;
    const bool is_silent = now - answered > kSilenceLimit;
    if (!reply && (reply.error().code != ErrorCode::kTimeout || is_silent)) return reply.error();
    if (reply && (reply.value().waits_for().empty() || now >= until)) {
      const pb::CheckNodesReply& facts = reply.value();
      ClusterFacts cluster;
      cluster.nodes.assign(facts.nodes().begin(), facts.nodes().end());
      cluster.silent.assign(facts.waits_for().begin(), facts.waits_for().end());
      cluster.waited_s = wait_s;
      return cluster;
    }
    const TimePoint next = now + kBetweenAsks;
    do {
      TAUT_TRY(look_around());
    } while (steady_now() < next);
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
