#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/net/data_token.hpp"
#include "common/net/endpoint.hpp"
#include "common/net/message.hpp"

namespace taut {

/// Bytes that are queued for a peer, and for all peers with its key.
struct UnreadBytes {
  using Count = std::shared_ptr<std::atomic<std::uint64_t>>;

  Count own = std::make_shared<std::atomic<std::uint64_t>>(0);
  Count of_key;  // nullptr: no keys here

  void add(std::uint64_t bytes) const;
  void remove(std::uint64_t bytes) const;
  /// The peer's bytes, or a quarter of those of all peers with its key, if that is more.
  [[nodiscard]] std::uint64_t bytes() const;
};

/// The secret of a caller's messages, and what it proves.
struct ProvedSecret {
  Frame request;
  std::shared_ptr<const TokenScope> scope;
  Frame answer;
};

/// A connection to a ROUTER.
struct ZmqCaller {
  std::string routing_id;
  std::string key;                    // that its handshake proved; empty: no keys here
  std::list<PeerId>::iterator place;  // in by_silence_
  UnreadBytes unread;
  std::optional<ProvedSecret> proved{};  // on a plain data plane
  int descriptor = -1;                   // ZeroMQ's, of the connection of its last message
};

/// The connections to a ROUTER that have sent messages: which peer each one is, what is queued for
/// it, and whether it has closed. Beyond a limit one is forgotten, and can no longer be answered.
/// Thread    the socket's; UnreadBytes: any
class ZmqCallers {
 public:
  /// max  number of connections that are remembered
  explicit ZmqCallers(std::size_t max) : max_(max) {}

  /// The origin of a message; valid only during a call, so that nothing is copied per message.
  struct Origin {
    const std::string& routing_id;
    const std::string& key;
    std::optional<ProvedSecret> proved;
    int descriptor = -1;  // -1: unknown
  };
  /// The peer that has sent a message; a new one has the number that `make_peer` returns. A routing
  /// id belongs to the key and the secret that it was first seen with: a connection that takes it
  /// over is another peer, and gets no answers that are meant for its predecessor.
  PeerId hear(Origin origin, const std::function<PeerId()>& make_peer);
  void forget(PeerId peer);
  /// The peer's connection has closed: it cannot be answered.
  void note_closed(PeerId peer);
  /// The peers whose connections have closed, as far as known.
  /// ended  descriptors of connections that have ended since the last call
  [[nodiscard]] std::vector<PeerId> take_closed(std::span<const int> ended);

  /// The caller that is this peer; nullptr if there is none.
  [[nodiscard]] const ZmqCaller* find(PeerId peer) const;
  /// Overload by routing id.
  [[nodiscard]] const ZmqCaller* find(const std::string& routing_id) const;

 private:
  struct KeyUse {
    std::size_t callers = 0;
    UnreadBytes::Count unread = std::make_shared<std::atomic<std::uint64_t>>(0);
  };

  PeerId peer_of(Origin origin, const std::function<PeerId()>& make_peer);
  void note_descriptor(PeerId peer, int descriptor);
  void add_closed(PeerId peer, int descriptor);
  void forget_descriptor(PeerId peer, int descriptor);
  void forget_one();

  const std::size_t max_;
  std::unordered_map<std::string, PeerId> by_routing_id_;
  std::unordered_map<PeerId, ZmqCaller> callers_;
  std::unordered_map<int, PeerId> by_descriptor_;
  std::deque<PeerId> closed_;           // known before their ends were reported
  std::unordered_map<int, int> early_;  // by descriptor: their ends that are not reported yet
  std::list<PeerId> by_silence_;        // the longest-silent first
  std::unordered_map<std::string, KeyUse> use_of_key_;
};

}  // namespace taut
