#include <google/protobuf/stubs/logging.h>

#include "common/check.hpp"
#include "proto/collective/peer_message.hpp"
#include "tests/fuzz/frames.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace taut {

std::vector<std::string> fuzz::samples() {
  std::vector<std::string> samples;
  const auto add = [&](auto body) {
    samples.push_back(to_bytes(encode(PeerMessage{7, 1, std::move(body)})));
  };
  add(SumChunk{.sum = 3,
               .is_final = true,
               .total = 100,
               .offset = 40,
               .count = 5,
               .payload = Frame::copy_of(std::string(20, '\x3f'))});
  pb::PeerHello hello;
  hello.set_wire_version(1);
  hello.set_build("a build");
  hello.set_agreement("RING of 2 ranks");
  hello.mutable_shared_memory()->set_probe("0123456789abcdef");
  hello.mutable_shared_memory()->set_size(1U << 20U);
  add(hello);
  pb::PeerHelloReply reply;
  reply.set_reason("set up differently");
  *reply.mutable_shared_memory() = hello.shared_memory();
  add(reply);
  pb::PeerWaits waits;
  waits.set_rank(3);
  add(waits);
  pb::PeerTaken taken;
  taken.set_bytes(1U << 20U);
  add(taken);
  return samples;
}

}  // namespace taut

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const google::protobuf::LogSilencer silent;
  const auto decoded = taut::decode_peer(taut::fuzz::to_message({data, size}));
  if (!decoded) {
    TAUT_CHECK(!decoded.error().message.empty(), "a refusal says why");
    return 0;
  }
  // What was understood is written and understood again.
  TAUT_CHECK(taut::decode_peer(taut::encode(decoded.value())).has_value(), "a round trip");
  if (const auto* chunk = std::get_if<taut::SumChunk>(&decoded.value().body)) {
    TAUT_CHECK(chunk->payload.size() == chunk->count * sizeof(float) &&
                   chunk->offset + chunk->count <= chunk->total,
               "a payload of another size than announced, or outside of the sum");
  }
  return 0;
}
