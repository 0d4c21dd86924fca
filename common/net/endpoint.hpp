#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/net/data_token.hpp"
#include "common/net/message.hpp"
#include "common/net/security.hpp"
#include "common/result.hpp"
#include "common/time.hpp"
#include "common/types.hpp"

namespace taut {

/// A connection as its own endpoint sees it. A peer that reconnects is a new one.
using PeerId = Id<struct PeerTag, std::uint64_t>;

struct Incoming {
  PeerId from;
  Message message;
  /// The sender, authenticated by its key and admitted when the message was received; nullptr if
  /// the endpoint has no keys. A PeerId has one sender for its whole life.
  std::shared_ptr<const Identity> sender = nullptr;
  /// What the secret of the message is bound to; nullptr if the connection has no secrets.
  std::shared_ptr<const TokenScope> scope = nullptr;
};

/// Why keys prevent a connection to a peer.
struct Refusal {
  bool is_final = false;  // until a key or a setting changes
  std::string reason;     // a predicate, "does not know this key ...", for "the X at HOST:PORT "
};

/// Limits of one socket.
struct EndpointLimits {
  std::size_t queued_messages = 4096;  // per peer and direction
  /// Limit on one peer's messages that have arrived and are not received yet, if smaller; further
  /// ones wait at the peer.
  std::size_t arrived_messages = 4096;
  Bytes frame = Bytes(64ULL << 20);  // a larger frame closes its connection
  std::size_t frames = 4096;         // a message with more of them is dropped
  std::size_t peers = 65536;  // connections that are remembered, so that they can be answered
  Bytes unread = Bytes(64ULL << 20);  // queued for one peer that has connected; see unread()
  /// After the endpoint closes, queued messages are sent for at most this long; the context waits.
  Duration linger = Duration(0);
};

/// One end of many connections: it may listen on addresses and connect to peers. Messages of one
/// connection arrive complete and in order, or not at all if it breaks; callers resend if
/// necessary. Thread: one, the same for every call except wake().
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  /// From now on this side listens and connects on the plain data plane of a cluster with keys: no
  /// connection is encrypted, each message starts with a secret, which is left out of Incoming, and
  /// a message without the right one is dropped. nullopt: returns to the keys' own security.
  /// own   the secret that is sent to peers that this side connects to; listening requires the
  ///       cluster's secret
  virtual void use_token(const std::optional<DataToken>& /*own*/) {}

  /// From now on this side connects to the holder of this public key, not to one of the cluster's.
  virtual void expect_key(const std::string& /*public_key*/) {}

  /// Listens on "host:port"; port 0 lets the system choose. Returns the address as bound.
  /// Errors: exists (the port is in use), invalid (no such interface).
  [[nodiscard]] virtual Result<std::string> bind(const std::string& address) = 0;

  /// A peer to send to, which need not exist yet; its connection is retried and restored.
  [[nodiscard]] virtual Result<PeerId> connect(const std::string& address) = 0;

  /// Forgets a connected peer; messages queued for it are dropped.
  virtual void disconnect(PeerId peer) = 0;

  /// Queues a message, whole or not at all; never waits.
  /// Errors    unavailable: the queue to the peer is full, in messages or bytes, or the connection
  ///           has just ended; not_found: the peer has disconnected, or its key is no longer
  ///           admitted
  [[nodiscard]] virtual Result<void> send(PeerId to, Message message) = 0;

  /// Bytes that are queued for a peer that has connected to this side and not yet on the wire; or
  /// a quarter of the bytes queued for all peers with its key, if that is more.
  [[nodiscard]] virtual std::uint64_t unread(PeerId /*peer*/) const { return 0; }

  /// The public key of a peer that has connected to this side; empty if no keys or no such peer.
  [[nodiscard]] virtual std::string key_of(PeerId /*peer*/) const { return {}; }

  /// Number of messages that were dropped because their key or secret is not admitted.
  [[nodiscard]] virtual std::uint64_t unadmitted() const { return 0; }

  /// Why a peer does not accept this side's connection; nullopt while no reason is known.
  [[nodiscard]] virtual std::optional<Refusal> refusal(PeerId /*peer*/) const {
    return std::nullopt;
  }

  /// Whether the process at the address of a peer that this side connects to has taken part in a
  /// handshake; its transport does so even while the process computes. false: not yet, or unknown.
  [[nodiscard]] virtual bool has_reached(PeerId /*peer*/) const { return false; }

  /// Peers that had connected to this side and sent something, and whose connections have closed
  /// since the last call. What they sent before may still arrive; one that is alive connects again
  /// as another peer. A hint: some may be missing, and one may be named that has not closed.
  [[nodiscard]] virtual std::vector<PeerId> take_closed() { return {}; }

  /// Returns the next message, waiting for it at most `wait`. nullopt: none arrived, a peer refused
  /// this side (see refusal()), or wake() was called.
  [[nodiscard]] virtual std::optional<Incoming> receive(Duration wait) = 0;

  /// Makes a waiting receive(), or the next one, return. Thread: any.
  virtual void wake() = 0;
};

}  // namespace taut
