#include "server/coordinator/node_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace taut {
namespace {

// A process takes at most half a minute; one that has not answered by this time never will.
constexpr Duration kOverAfter = std::chrono::seconds(60);
constexpr std::uint32_t kMaxTransferBytes = 64U << 20U;
constexpr int kMaxShards = 4096;  // of NodeCheck

}  // namespace

bool NodeChecks::runs(TimePoint now) const {
  return check_.number() != 0 && facts_.size() < requested_.size() && now - begun_ < kOverAfter;
}

void NodeChecks::begin(const pb::CheckNodes& request, const std::vector<const Participant*>& nodes,
                       TimePoint now) {
  check_.Clear();
  requested_.clear();
  facts_.clear();
  begun_ = now;
  check_.set_number(request.number());
  *check_.mutable_paths() = request.paths();
  check_.set_transfer_bytes(request.transfer_bytes());
  for (const Participant* node : nodes) {
    requested_.emplace_back(node->role, node->name);
    for (const std::string& address : node->shard_addresses) {
      if (check_.shards_size() < kMaxShards) check_.add_shards(address);
    }
  }
}

bool NodeChecks::answer(const pb::CheckNodes& request, const std::vector<const Participant*>& nodes,
                        pb::CheckNodesReply& reply, TimePoint now) {
  if (request.number() == 0 || request.transfer_bytes() > kMaxTransferBytes) {
    reply.set_error(fmt::format(
        "a check has a number, and transfers at most {} bytes; this one has number {} and {}",
        kMaxTransferBytes, request.number(), request.transfer_bytes()));
    return false;
  }
  const bool begins = request.number() != check_.number();
  if (begins && runs(now)) {
    reply.set_error(fmt::format(
        "another check of the nodes has been running for {:.0f} s; it ends within {:.0f} s",
        seconds(now - begun_), seconds(kOverAfter - (now - begun_))));
    return false;
  }
  if (begins) begin(request, nodes, now);
  for (const Key& key : requested_) {
    const auto known = facts_.find(key);
    if (known == facts_.end()) {
      reply.add_waits_for(key.second);
    } else {
      *reply.add_nodes() = known->second;
    }
  }
  return begins;
}

void NodeChecks::hear(const Participant& process, const pb::Heartbeat& heartbeat,
                      pb::HeartbeatReply& reply, TimePoint now) {
  const Key key(process.role, process.name);
  if (!runs(now) || facts_.contains(key)) return;
  if (std::ranges::find(requested_, key) == requested_.end()) return;
  if (heartbeat.facts().number() != check_.number()) {
    *reply.mutable_check() = check_;
    return;
  }
  pb::NodeFacts& facts = facts_[key] = heartbeat.facts();
  facts.set_name(process.name);
  facts.set_is_server(process.role == pb::ROLE_SERVER);
}

}  // namespace taut
