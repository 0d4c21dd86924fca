#include "common/net/zmq/zmq_callers.hpp"

#include <algorithm>
#include <utility>

namespace taut {
namespace {

// The unread bytes of all connections of a key count as if this many of them shared the bytes.
constexpr std::uint64_t kSharers = 4;
constexpr std::size_t kMaxClosed = 4096;

}  // namespace

void UnreadBytes::add(std::uint64_t bytes) const {
  own->fetch_add(bytes, std::memory_order_relaxed);
  if (of_key) of_key->fetch_add(bytes, std::memory_order_relaxed);
}

void UnreadBytes::remove(std::uint64_t bytes) const {
  own->fetch_sub(bytes, std::memory_order_relaxed);
  if (of_key) of_key->fetch_sub(bytes, std::memory_order_relaxed);
}

std::uint64_t UnreadBytes::bytes() const {
  const std::uint64_t one = own->load(std::memory_order_relaxed);
  return of_key ? std::max(one, of_key->load(std::memory_order_relaxed) / kSharers) : one;
}

PeerId ZmqCallers::hear(Origin origin, const std::function<PeerId()>& make_peer) {
  const int descriptor = origin.descriptor;
  const PeerId peer = peer_of(std::move(origin), make_peer);
  if (descriptor >= 0) note_descriptor(peer, descriptor);
  return peer;
}

PeerId ZmqCallers::peer_of(Origin origin, const std::function<PeerId()>& make_peer) {
  const auto known = by_routing_id_.find(origin.routing_id);
  if (known != by_routing_id_.end()) {
    const PeerId peer = known->second;
    const ZmqCaller& caller = callers_.at(peer);
    const bool has_same_scope =
        !origin.proved || (caller.proved && *caller.proved->scope == *origin.proved->scope);
    if (caller.key == origin.key && has_same_scope) {
      by_silence_.splice(by_silence_.end(), by_silence_, caller.place);
      return peer;
    }
    forget(peer);
  }
  if (callers_.size() >= max_) forget_one();
  const PeerId peer = make_peer();
  by_routing_id_.emplace(origin.routing_id, peer);
  const auto place = by_silence_.insert(by_silence_.end(), peer);
  KeyUse& use = use_of_key_[origin.key];
  ++use.callers;
  UnreadBytes unread;
  if (!origin.key.empty()) unread.of_key = use.unread;
  callers_.emplace(peer, ZmqCaller{.routing_id = origin.routing_id,
                                   .key = origin.key,
                                   .place = place,
                                   .unread = std::move(unread),
                                   .proved = std::move(origin.proved)});
  return peer;
}

void ZmqCallers::note_descriptor(PeerId peer, int descriptor) {
  ZmqCaller& caller = callers_.at(peer);
  if (caller.descriptor == descriptor) return;
  const auto known = by_descriptor_.find(descriptor);
  // The message waited while another connection got the descriptor: its own has closed.
  if (known != by_descriptor_.end() && peer < known->second) return;
  forget_descriptor(peer, caller.descriptor);
  caller.descriptor = descriptor;
  if (known != by_descriptor_.end()) {
    // The connection that had it has closed, and its end will be reported soon.
    callers_.at(known->second).descriptor = -1;
    add_closed(known->second, descriptor);
  }
  by_descriptor_.insert_or_assign(descriptor, peer);
}

void ZmqCallers::add_closed(PeerId peer, int descriptor) {
  closed_.push_back(peer);
  if (closed_.size() > kMaxClosed) closed_.pop_front();
  if (early_.size() < kMaxClosed || early_.contains(descriptor)) ++early_[descriptor];
}

void ZmqCallers::note_closed(PeerId peer) {
  const auto caller = callers_.find(peer);
  if (caller != callers_.end() && caller->second.descriptor >= 0) {
    add_closed(peer, caller->second.descriptor);
  }
  forget(peer);
}

/// Does nothing if another connection has the descriptor by now.
void ZmqCallers::forget_descriptor(PeerId peer, int descriptor) {
  const auto known = by_descriptor_.find(descriptor);
  if (known != by_descriptor_.end() && known->second == peer) by_descriptor_.erase(known);
}

std::vector<PeerId> ZmqCallers::take_closed(std::span<const int> ended) {
  std::vector<PeerId> closed(closed_.begin(), closed_.end());
  closed_.clear();
  for (const int descriptor : ended) {
    if (const auto early = early_.find(descriptor); early != early_.end()) {
      if (--early->second == 0) early_.erase(early);
      continue;
    }
    const auto caller = by_descriptor_.find(descriptor);
    if (caller == by_descriptor_.end()) continue;
    closed.push_back(caller->second);
    callers_.at(caller->second).descriptor = -1;
    by_descriptor_.erase(caller);
  }
  return closed;
}

/// Forgets the longest-silent connection of the key that has the most: a peer that
/// opens many evicts no other, and without keys none that speaks.
void ZmqCallers::forget_one() {
  const auto crowded =
      std::ranges::max_element(use_of_key_, {}, [](const auto& one) { return one.second.callers; });
  const auto has_key = [&](PeerId peer) { return callers_.at(peer).key == crowded->first; };
  forget(*std::ranges::find_if(by_silence_, has_key));
}

void ZmqCallers::forget(PeerId peer) {
  const auto found = callers_.find(peer);
  if (found == callers_.end()) return;
  by_routing_id_.erase(found->second.routing_id);
  by_silence_.erase(found->second.place);
  const auto of_key = use_of_key_.find(found->second.key);
  if (--of_key->second.callers == 0) use_of_key_.erase(of_key);
  forget_descriptor(peer, found->second.descriptor);
  callers_.erase(found);
}

const ZmqCaller* ZmqCallers::find(PeerId peer) const {
  const auto found = callers_.find(peer);
  return found == callers_.end() ? nullptr : &found->second;
}

const ZmqCaller* ZmqCallers::find(const std::string& routing_id) const {
  const auto found = by_routing_id_.find(routing_id);
  return found == by_routing_id_.end() ? nullptr : find(found->second);
}

}  // namespace taut
