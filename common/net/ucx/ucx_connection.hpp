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

/// A message that is queued for a peer, and counts as that until it was sent or dropped.
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
    kApart,     // dialed again when it is due
    kGreeting,  // until the other side has said hello or welcome; it is lost when that is due
    kOpen,
  };

  PeerId number;
  State state = State::kApart;
  ucp_ep_h handle = nullptr;        // nullptr: kApart
  std::shared_ptr<UcxPeer> peer{};  // nullptr: a caller that has not said hello
  TimePoint due;
  std::uint64_t last_heard = 0;  // grows: the lowest has been silent for longest

  // Of a dialed one.
  std::string address{};
  Duration pause{0};                                   // before it is dialed again
  std::deque<std::shared_ptr<UcxOutgoing>> waiting{};  // until it is open

  Frame own_secret{};       // with what is sent; empty: no secrets here
  Frame expected_secret{};  // with what arrives
  // By which the other side names it: of a dialed one another each time, so that nothing of an
  // earlier connection is taken for one of this.
  std::uint64_t own = 0;
  std::uint64_t remote = 0;    // the other side's name of it
  std::uint64_t next_out = 0;  // sequences
  std::uint64_t next_in = 0;
  std::map<std::uint64_t, UcxAssembly> assemblies{};
  std::uint64_t kept = 0;     // bytes of what has arrived of them
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
