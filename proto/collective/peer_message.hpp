#pragma once

#include <cstdint>
#include <variant>

#include "common/net/message.hpp"
#include "common/net/shared_link.hpp"
#include "common/result.hpp"
#include "proto/collective/collective.pb.h"

namespace taut {

/// Consecutive elements of a sum, from one rank to another.
struct SumChunk {
  std::uint64_t sum = 0;  // counts the group's sums
  bool is_final = false;
  std::uint64_t total = 0;   // elements of the whole sum
  std::uint64_t offset = 0;  // of the first element
  std::uint64_t count = 0;   // elements
  Frame payload;             // [count] float32, little-endian
};

/// A message between the ranks of a group that sums without a server.
struct PeerMessage {
  std::uint64_t group = 0;
  std::uint32_t rank = 0;  // the sender's
  std::variant<SumChunk, pb::PeerHello, pb::PeerHelloReply, pb::PeerWaits, pb::PeerTaken> body;
};

/// Frames as docs/WIRE.md describes them; a payload is shared, not copied.
/// link  given if both sides share memory: a payload there is sent as a place
[[nodiscard]] Message encode(const PeerMessage& message, SharedLink* link = nullptr);

/// Errors: mismatch (another wire version), invalid (not such a message). Never aborts on any
/// bytes.
[[nodiscard]] Result<PeerMessage> decode_peer(const Message& frames, SharedLink* link = nullptr);

}  // namespace taut
