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

/// A client's connections to the hosts of its shards, and the memory that it shares with those of
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
  /// Leaves a shard's host for the one that serves it now. REQUIRES: it was connected.
  [[nodiscard]] Result<void> move(const ShardAddress& shard);
  [[nodiscard]] const std::string& address_of(ShardId shard) const { return address_of_.at(shard); }

  /// What cannot be sent is dropped: it is sent again when its time has passed.
  void send(ShardId shard, DataMessage& message);
  /// Nothing: it comes from a host that was left, or is broken.
  [[nodiscard]] std::optional<std::pair<ShardId, DataMessage>> decode(const Incoming& incoming);
  /// A host that does not accept this side's key, and why; nullopt if none has said so.
  [[nodiscard]] std::optional<Error> refusal() const;
  /// Takes over the memory that a shard offers once it could map this side's; each connection
  /// agrees again. Returns whether payloads pass through it from now on.
  [[nodiscard]] bool agree_on_memory(ShardId shard, const DataMessage& message);
  /// Loans of broken connections return as those of working ones do.
  void forget_returned_links();
  /// Shards may still use updates in shared memory: it is not used again.
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
  // Of hosts that serve a shard no more, until a read is answered by its new one: then no worker
  // accepts answers of an old one that still runs, and what it does with updates no longer matters.
  std::multimap<ShardId, std::unique_ptr<SharedLink>> moved_links_;
};

}  // namespace taut
