#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/net/endpoint.hpp"
#include "common/net/shared_arena.hpp"
#include "common/net/shared_link.hpp"
#include "common/result.hpp"
#include "common/types.hpp"
#include "proto/data_message.hpp"
#include "worker/client/client.hpp"

namespace taut {

/// A client's connections to the hosts of its shards, and the memory that it shares with hosts on
/// its own machine. A host's memory is requested with each greeting.
/// Thread    the leader of the client's driver
class ShardConnections {
 public:
  /// arena    nullptr: payloads travel as bytes
  /// pinning  of what shards lend; nullptr: it is not pinned
  ShardConnections(Endpoint& endpoint, std::shared_ptr<SharedArena> arena,
                   std::shared_ptr<MemoryPinning> pinning)
      : endpoint_(endpoint), arena_(std::move(arena)), pinning_(std::move(pinning)) {}

  [[nodiscard]] Result<void> connect(const ShardAddress& shard);
  /// Disconnects from a shard's old host and connects to its new one. REQUIRES: it was connected.
  [[nodiscard]] Result<void> move(const ShardAddress& shard);
  [[nodiscard]] const std::string& address_of(ShardId shard) const { return address_of_.at(shard); }

  /// Drops a message that cannot be sent: it is retransmitted after its timeout.
  void send(ShardId shard, DataMessage& message);
  /// nullopt if the message is from a host that was disconnected, or is malformed.
  [[nodiscard]] std::optional<std::pair<ShardId, DataMessage>> decode(const Incoming& incoming);
  /// A host that does not accept this side's key, and why; nullopt if there is none.
  [[nodiscard]] std::optional<Error> refusal() const;
  /// Maps the memory that a shard offers once it has mapped this side's; each connection agrees
  /// separately. Returns whether payloads pass through it from now on.
  [[nodiscard]] bool agree_on_memory(ShardId shard, const DataMessage& message);
  /// Drops links of broken connections whose loans have all been returned.
  void forget_returned_links();
  /// Never reuses the shared memory: shards may still read updates in it.
  void abandon_memory();

 private:
  SharedLink* link_of(ShardId shard);
  void forget_moved_link(ShardId shard, const DataMessage& message);

  Endpoint& endpoint_;
  const std::shared_ptr<SharedArena> arena_;
  const std::shared_ptr<MemoryPinning> pinning_;
  std::map<PeerId, ShardId> shard_of_;
  std::map<ShardId, PeerId> peer_of_;
  std::map<ShardId, std::string> address_of_;
  std::map<ShardId, std::unique_ptr<SharedLink>> links_;  // where memory is shared
  // Of connections that broke: a shard may still hold an update that is in shared memory.
  std::vector<std::unique_ptr<SharedLink>> old_links_;
  // Of hosts that no longer serve a shard, until its new one answers a read: from then on no worker
  // accepts answers of an old host that still runs, and what it does with updates does not matter.
  std::multimap<ShardId, std::unique_ptr<SharedLink>> moved_links_;
};

}  // namespace taut
