#pragma once

#include <map>
#include <memory>

#include "common/net/endpoint.hpp"
#include "common/net/shared_link.hpp"
#include "common/time.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"

namespace taut::server {

/// The peers with which a shard shares memory: agreed on in their hello, until they close theirs.
/// Thread    the shard's
class SharedPeers {
 public:
  /// arena  where the shard's payloads are; nullptr: nothing is shared
  explicit SharedPeers(std::shared_ptr<SharedArena> arena) : arena_(std::move(arena)) {}

  /// Inspects a peer's message before the shard handles it: for an offer, and for the confirmation
  /// that the peer could map the shard's memory.
  void hear(PeerId from, const DataMessage& message);
  /// Puts the shard's own offer into an accepted hello's reply.
  void answer(PeerId to, DataMessage& message) const;

  /// A peer's link; nullptr if memory is not shared.
  [[nodiscard]] SharedLink* link(PeerId peer);

  /// Takes back what peers have returned: from all of them if they are few, otherwise in turn.
  void collect();

  /// Releases what was lent to clients that have ended.
  void sweep(TimePoint now);

 private:
  // A process that says hello repeatedly cannot take more of the shard's memory than this.
  static constexpr std::size_t kMaxLinks = 1024;
  struct Peer {
    std::unique_ptr<SharedLink> link;
    SharedLink::Offer offer;  // the peer's
    ShardId shard;            // a client has one connection per shard, and one memory for all
  };

  const std::shared_ptr<SharedArena> arena_;
  std::map<PeerId, Peer> peers_;
  PeerId next_to_collect_;
  TimePoint swept_;
};

}  // namespace taut::server
