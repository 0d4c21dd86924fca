#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/net/endpoint.hpp"
#include "common/net/ucx/ucx_mailbox.hpp"
#include "common/net/ucx/ucx_parts.hpp"
#include "common/net/ucx/ucx_worker.hpp"

namespace taut {

/// A message that is queued for a peer; it counts as queued until it is sent or dropped.
struct UcxOutgoing {
  UcxOutgoing(std::shared_ptr<UcxPeer> to, Message what, std::uint64_t how_many)
      : peer(std::move(to)), message(std::move(what)), bytes(how_many) {
    peer->add(bytes);
  }
  ~UcxOutgoing() { peer->remove(bytes); }
  UcxOutgoing(const UcxOutgoing&) = delete;
  UcxOutgoing& operator=(const UcxOutgoing&) = delete;

  const std::shared_ptr<UcxPeer> peer;
  const Message message;
  const std::uint64_t bytes;
};

/// A connection as an engine knows it. Thread: the engine's.
struct UcxConnection {
  enum class State : std::uint8_t {
    kApart,     // not connected; dialed again at `due`
    kGreeting,  // waits for the other side's hello or welcome; lost at `due`
    kOpen,
  };

  PeerId number;
  State state = State::kApart;
  ucp_ep_h handle = nullptr;        // nullptr in kApart
  std::shared_ptr<UcxPeer> peer{};  // nullptr until a caller's hello is accepted
  TimePoint due;
  std::uint64_t last_heard = 0;  // a counter: the lowest has been silent longest

  // Only for a dialed connection.
  std::string address{};
  Duration pause{0};                                   // before the next dial
  std::deque<std::shared_ptr<UcxOutgoing>> waiting{};  // sent once it is open

  Frame own_secret{};       // sent with each part; empty: no secrets here
  Frame expected_secret{};  // required of each part that arrives
  // This side's id for the connection, in each part that arrives; each dial gets a new one, so that
  // no part of an earlier connection is taken for a part of this one.
  std::uint64_t own = 0;
  std::uint64_t remote = 0;    // the peer's id for it, in each part that is sent
  std::uint64_t next_out = 0;  // sequence numbers
  std::uint64_t next_in = 0;
  std::map<std::uint64_t, UcxAssembly> assemblies{};
  std::uint64_t kept = 0;     // bytes of `assemblies` that have arrived
  std::uint64_t fetched = 0;  // bytes of large frames that are arriving
  /// Large frames that wait at the sender.
  struct Postponed {
    UcxPart part;
    void* data;
    std::size_t bytes;
  };
  std::deque<Postponed> postponed{};
};

}  // namespace taut
