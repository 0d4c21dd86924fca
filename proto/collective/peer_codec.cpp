#include <fmt/format.h>

#include <bit>
#include <string>
#include <utility>

#include "proto/collective/peer_message.hpp"
#include "proto/message_limits.hpp"
#include "proto/wire_version.hpp"

// Payload frames are little-endian, as in memory.
static_assert(std::endian::native == std::endian::little);

namespace taut {
namespace {

// A hello has the longest header, because of its texts.
constexpr std::size_t kMaxHeaderBytes = 16UL << 10U;
// Maximum elements of a sum: products cannot overflow.
constexpr std::uint64_t kMaxElements = 1ULL << 40U;

void add_chunk(const SumChunk& chunk, pb::PeerChunk& wire, Message& frames, SharedLink* link) {
  wire.set_sum(chunk.sum);
  wire.set_is_final(chunk.is_final);
  wire.set_total(chunk.total);
  wire.set_offset(chunk.offset);
  wire.set_count(chunk.count);
  const auto place = link == nullptr ? std::nullopt : link->lend(chunk.payload);
  if (!place) {
    frames.frames.push_back(chunk.payload);
    return;
  }
  wire.mutable_place()->set_offset(place->offset);
  wire.mutable_place()->set_loan(place->loan);
  wire.mutable_place()->set_generation(place->generation);
}

Result<SumChunk> chunk_of(const pb::PeerChunk& wire, const Message& frames, SharedLink* link) {
  if (wire.total() > kMaxElements || wire.count() == 0 || wire.count() > wire.total() ||
      wire.offset() > wire.total() - wire.count()) {
    return invalid(fmt::format("{} elements from {} on of a sum of {}; at most {} are summed",
                               wire.count(), wire.offset(), wire.total(), kMaxElements));
  }
  SumChunk chunk{.sum = wire.sum(),
                 .is_final = wire.is_final(),
                 .total = wire.total(),
                 .offset = wire.offset(),
                 .count = wire.count(),
                 .payload = {}};
  const std::uint64_t bytes = wire.count() * sizeof(float);
  if (wire.has_place()) {
    if (frames.frames.size() != 1) return invalid("a chunk both in shared memory and in frames");
    if (link == nullptr) return invalid("a chunk in shared memory that was not agreed on");
    const pb::SharedPlace& place = wire.place();
    TAUT_TRY(chunk.payload,
             link->borrow({place.offset(), place.loan(), place.generation()}, bytes));
    return chunk;
  }
  if (frames.frames.size() != 2) {
    return invalid(fmt::format("a chunk with {} payload frames", frames.frames.size() - 1));
  }
  if (frames.frames[1].size() != bytes) {
    return invalid(fmt::format("{} elements announced, {} bytes received", wire.count(),
                               frames.frames[1].size()));
  }
  chunk.payload = frames.frames[1];
  return chunk;
}

}  // namespace

Message encode(const PeerMessage& message, SharedLink* link) {
  pb::PeerHeader header;
  header.set_group(message.group);
  header.set_rank(message.rank);
  Message frames;
  frames.frames.emplace_back();
  struct Body {
    pb::PeerHeader& header;
    Message& frames;
    SharedLink* link;
    void operator()(const SumChunk& chunk) const {
      add_chunk(chunk, *header.mutable_chunk(), frames, link);
    }
    void operator()(const pb::PeerHello& body) const { *header.mutable_hello() = body; }
    void operator()(const pb::PeerHelloReply& body) const {
      *header.mutable_hello_reply() = body;
      cut_to_limits(header);
    }
    void operator()(const pb::PeerWaits& body) const { *header.mutable_waits() = body; }
    void operator()(const pb::PeerTaken& body) const { *header.mutable_taken() = body; }
  };
  std::visit(Body{header, frames, link}, message.body);
  std::string bytes;
  append_prefix(Plane::kPeers, bytes);
  header.AppendToString(&bytes);
  frames.frames[0] = Frame::copy_of(bytes);
  return frames;
}

Result<PeerMessage> decode_peer(const Message& frames, SharedLink* link) {
  if (frames.frames.empty()) return invalid("a message of a rank without frames");
  const Frame& first = frames.frames[0];
  TAUT_TRY(const std::uint16_t version, read_prefix(Plane::kPeers, first));
  if (first.size() > kMaxHeaderBytes) {
    return invalid(fmt::format("a header of {} bytes from a rank; the limit is {}", first.size(),
                               kMaxHeaderBytes));
  }
  pb::PeerHeader header;
  TAUT_TRY(check_parsed_bytes(header, first.bytes().subspan(kPrefixBytes)));
  if (!header.ParseFromArray(first.bytes().data() + kPrefixBytes,
                             static_cast<int>(first.size() - kPrefixBytes))) {
    return invalid(
        fmt::format("a header of {} bytes from a rank that does not parse", first.size()));
  }
  // Hello and its reply are decoded in any version, so that both sides can report a mismatch.
  const bool greeting = header.has_hello() || header.has_hello_reply();
  if (version != kWireVersion && !greeting) {
    return make_error(ErrorCode::kMismatch, fmt::format("a rank's message of wire version {}; "
                                                        "this side has {}",
                                                        version, kWireVersion));
  }
  TAUT_TRY(check_limits(header));
  PeerMessage message{header.group(), header.rank(), {}};
  if (header.has_chunk()) {
    TAUT_TRY(message.body, chunk_of(header.chunk(), frames, link));
    return message;
  }
  if (frames.frames.size() != 1) return invalid("payload frames without a chunk");
  switch (header.body_case()) {
    case pb::PeerHeader::kHello:
      message.body = std::move(*header.mutable_hello());
      return message;
    case pb::PeerHeader::kHelloReply:
      message.body = std::move(*header.mutable_hello_reply());
      return message;
    case pb::PeerHeader::kWaits:
      message.body = header.waits();
      return message;
    case pb::PeerHeader::kTaken:
      message.body = header.taken();
      return message;
    default:
      return invalid("a header of a rank without a body");
  }
}

}  // namespace taut
