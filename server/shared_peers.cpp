#include "server/shared_peers.hpp"

#include <algorithm>
#include <new>

#include "common/log.hpp"
#include "proto/session/shared_handshake.hpp"

namespace taut::server {
namespace {

constexpr Duration kSweepEvery{1'000'000};
constexpr std::size_t kCollectedAtOnce = 8;

}  // namespace

void SharedPeers::hear(PeerId from, const DataMessage& message) {
  if (!arena_) return;
  if (const auto* hello = std::get_if<pb::DataHello>(&message.body)) {
    if (!hello->has_shared_memory()) return;
    const auto offer = from_wire(hello->shared_memory());
    if (!offer) return;
    const auto known = peers_.find(from);
    // The same hello again: its reply is late, or was lost.
    if (known != peers_.end() && known->second.offer == offer.value()) return;
    // A client that says hello again for a shard has read everything that was sent for it before.
    const ShardId shard(hello->shard());
    std::erase_if(peers_, [&](const auto& peer) {
      return peer.first == from ||
             (peer.second.offer.memory == offer.value().memory && peer.second.shard == shard);
    });
    if (peers_.size() >= kMaxLinks) return;
    try {
      auto link = std::make_unique<SharedLink>(arena_);
      if (auto opened = link->open(offer.value(), ArenaPages::kStay); !opened) {
        log::debug("peer {}: payloads travel as bytes: {}", from.value(), opened.error().message);
        return;
      }
      peers_[from] = {std::move(link), offer.value(), shard};
    } catch (const std::bad_alloc&) {
      log::warn("peer {}: payloads travel as bytes: no shared memory is left", from.value());
    }
  } else if (const auto* requested = std::get_if<pb::OpenTables>(&message.body)) {
    const auto peer = peers_.find(from);
    if (peer != peers_.end() && requested->shares_memory()) peer->second.link->start();
  }
}

void SharedPeers::answer(PeerId to, DataMessage& message) const {
  auto* reply = std::get_if<pb::DataHelloReply>(&message.body);
  if (reply == nullptr || !reply->accepted()) return;
  const auto peer = peers_.find(to);
  if (peer != peers_.end()) *reply->mutable_shared_memory() = to_wire(peer->second.link->offer());
}

SharedLink* SharedPeers::link(PeerId peer) {
  const auto found = peers_.find(peer);
  return found == peers_.end() ? nullptr : found->second.link.get();
}

void SharedPeers::collect() {
  auto next = peers_.lower_bound(next_to_collect_);
  for (std::size_t i = 0; i < std::min(peers_.size(), kCollectedAtOnce); ++i) {
    if (next == peers_.end()) next = peers_.begin();
    next->second.link->collect();
    ++next;
  }
  if (next != peers_.end()) next_to_collect_ = next->first;
}

void SharedPeers::sweep(TimePoint now) {
  if (now - swept_ < kSweepEvery) return;
  swept_ = now;
  std::erase_if(peers_, [](const auto& peer) { return !peer.second.link->is_alive(); });
}

}  // namespace taut::server
