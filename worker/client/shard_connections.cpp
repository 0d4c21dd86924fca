#include "worker/client/shard_connections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "common/log.hpp"
#include "proto/session/shared_handshake.hpp"

namespace taut {
namespace {

constexpr std::size_t kMaxOldLinks = 16;

}  // namespace

Result<void> ShardConnections::connect(const ShardAddress& shard) {
  TAUT_TRY(const PeerId peer, endpoint_.connect(shard.address));
  shard_of_[peer] = shard.shard;
  peer_of_[shard.shard] = peer;
  address_of_[shard.shard] = shard.address;
  return ok();
}

Result<void> ShardConnections::move(const ShardAddress& shard) {
  const PeerId old = peer_of_.at(shard.shard);
  endpoint_.disconnect(old);
  shard_of_.erase(old);
  if (auto link = links_.extract(shard.shard); !link.empty()) {
    moved_links_.emplace(shard.shard, std::move(link.mapped()));
  }
  return connect(shard);
}

SharedLink* ShardConnections::link_of(ShardId shard) {
  const auto found = links_.find(shard);
  if (found == links_.end() || !found->second->is_open()) return nullptr;
  found->second->collect();
  return found->second.get();
}

void ShardConnections::send(ShardId shard, DataMessage& message) {
  if (auto* hello = std::get_if<pb::DataHello>(&message.body);
      hello != nullptr && arena_ && old_links_.size() < kMaxOldLinks) {
    try {
      auto& link = links_[shard];
      if (!link) link = std::make_unique<SharedLink>(arena_, pinning_);
      *hello->mutable_shared_memory() = to_wire(link->offer());
    } catch (const std::bad_alloc&) {
      links_.erase(shard);
      log::warn("shard {}: payloads travel as bytes: no shared memory is left", shard.value());
    }
  }
  SharedLink* link = link_of(shard);
  if (auto* requested = std::get_if<pb::OpenTables>(&message.body)) {
    requested->set_shares_memory(link != nullptr);
  }
  const std::uint64_t lent = link == nullptr ? 0 : link->lent_so_far();
  if (auto sent = endpoint_.send(peer_of_[shard], encode(message, link)); !sent) {
    log::debug("shard {}: {}", shard.value(), sent.error().message);
    if (link != nullptr) link->undo_since(lent);
  }
}

std::optional<std::pair<ShardId, DataMessage>> ShardConnections::decode(const Incoming& incoming) {
  const auto known = shard_of_.find(incoming.from);
  if (known == shard_of_.end()) return std::nullopt;
  const ShardId shard = known->second;
  auto message = decode_data(incoming.message, link_of(shard));
  if (!message) {
    log::warn("dropped a message from shard {}: {}", shard.value(), message.error().message);
    return std::nullopt;
  }
  forget_moved_link(shard, message.value());
  return std::pair(shard, std::move(message.value()));
}

std::optional<Error> ShardConnections::refusal() const {
  for (const auto& [peer, shard] : shard_of_) {
    const auto refused = endpoint_.refusal(peer);
    if (!refused || !refused->is_final) continue;
    return make_error(ErrorCode::kUnavailable, fmt::format("shard {} at {} {}", shard.value(),
                                                           address_of_.at(shard), refused->reason));
  }
  return std::nullopt;
}

bool ShardConnections::agree_on_memory(ShardId shard, const DataMessage& message) {
  const auto* reply = std::get_if<pb::DataHelloReply>(&message.body);
  const auto found = links_.find(shard);
  if (reply == nullptr || found == links_.end()) return false;
  if (reply->greet_again() && found->second->is_open()) {
    old_links_.push_back(std::move(found->second));
    links_.erase(found);
    return false;
  }
  if (!reply->has_shared_memory()) return false;
  SharedLink& link = *found->second;
  const auto offer = from_wire(reply->shared_memory());
  if (link.is_open() || !offer) return false;
  if (auto opened = link.open(offer.value()); !opened) {
    log::debug("shard {}: payloads travel as bytes: {}", shard.value(), opened.error().message);
    return false;
  }
  link.start();
  return true;
}

/// A read answered by a shard's new host shows that every member is connected to that host.
void ShardConnections::forget_moved_link(ShardId shard, const DataMessage& message) {
  if (moved_links_.empty()) return;
  const auto* batch = std::get_if<DataItems>(&message.body);
  const bool answers_read = batch != nullptr && std::ranges::any_of(batch->items, [](auto& item) {
                              return item.kind == pb::DataItem::VALUE;
                            });
  if (answers_read) moved_links_.erase(shard);
}

void ShardConnections::forget_returned_links() {
  std::erase_if(old_links_, [](const std::unique_ptr<SharedLink>& link) {
    link->collect();
    return link->on_loan() == 0;
  });
}

void ShardConnections::abandon_memory() {
  if (arena_) arena_->abandon();
}

}  // namespace taut
