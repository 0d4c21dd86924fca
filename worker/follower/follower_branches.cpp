// Checks that all slices gathered of a version are of one branch of the job.
//
// When a shard's host and a worker are lost together, updates may be lost with both. The clocks
// that the shard had reached are then trained again, by another worker and with other values: the
// job continues on another branch. A model of which one slice was read from the lost host, and
// another one from a survivor after that clock was trained again, has never existed.
#include <algorithm>

#include "worker/follower/follower_protocol.hpp"

namespace taut {

/// The branch that this follower knows of: it increases when a shard is taken over, as that shard's
/// term does. 0: the job is not replicated, and has one branch.
std::uint64_t FollowerProtocol::branch() const {
  std::uint64_t branch = 0;
  for (const auto& [shard, link] : links_) branch += link.term;
  return branch;
}

/// Models that are passed on name their branch.
DataMessage FollowerProtocol::envelope_for_peer() const {
  DataMessage message = envelope();
  message.incarnation = Incarnation(branch());
  return message;
}

/// Whether items of the source are of the branch that is read here. If not, one of the two sides
/// has not heard of a takeover yet; dropped items are requested again.
bool FollowerProtocol::is_of_branch(const DataMessage& message) {
  const std::uint64_t theirs = message.incarnation.value();
  // 0: the source has no branches, or is of a build that does not name them.
  if (theirs == 0 || theirs == branch()) return true;
  if (theirs > branch()) is_urgent_ = true;
  return false;
}

/// Whether slices of one version can be of two branches. Those of a single host are lost together,
/// and requested again once their new host is known.
bool FollowerProtocol::may_be_mixed() const {
  if (branch() == 0) return false;
  const std::string& address = links_.begin()->second.address;
  return std::ranges::any_of(links_,
                             [&](const auto& entry) { return entry.second.address != address; });
}

/// All slices have arrived. The model is valid once each host has answered a request that is sent
/// now: lost ones do not, so none was lost before the last slice was sent. The request goes to the
/// shards: the coordinator would get one for each model of each follower, and training that waits
/// for followers would stop while the coordinator is away.
void FollowerProtocol::complete(TimePoint now) {
  // Only a round that begins now or later shows whether it is near enough to the newest.
  is_fresh_ = false;
  fresh_from_ = now;
  if (may_be_mixed()) {
    probe(now);
  } else {
    finish();
  }
}

}  // namespace taut
