#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "proto/data_message.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"

namespace taut::test {

inline Frame floats(std::size_t count) {
  return Frame::copy_of(std::string(count * sizeof(float), '\x3f'));
}

inline DataItem item(DataItem::Kind kind, std::size_t count = 0) {
  DataItem result;
  result.kind = kind;
  result.table = TableId(3);
  result.slice = SliceId(2);
  result.offset = (1ULL << 40U) + 5;
  result.count = count;
  result.clock = Clock(1'000'000'007);
  result.version = Clock(12);
  result.done = Clock(13);
  result.gradient_norm = 0.5F;
  if (kind == pb::DataItem::PUSH) result.weight = 1.75F;
  if (count > 0) result.payload = floats(count);
  return result;
}

inline DataMessage sample() {
  DataMessage message{JobId(0x8000000000000001ULL), WorkerId(4), Incarnation(1ULL << 60U), {}};
  DataItem refused = item(pb::DataItem::REFUSED);
  refused.refusal = pb::DataItem::HELD;
  refused.reason = "soon";
  DataItem parked = item(pb::DataItem::PARKED);
  parked.waits_for = WorkerId(3);
  message.body = DataItems{{item(pb::DataItem::PUSH, 3), item(pb::DataItem::READ),
                            item(pb::DataItem::PUSH_READ, 1), item(pb::DataItem::SNAPSHOT),
                            item(pb::DataItem::ACK), item(pb::DataItem::VALUE, 2), refused,
                            item(pb::DataItem::SNAPSHOT_VALUE, 4), parked}};
  return message;
}

/// A message of one item's header, changed, with these payload frames.
inline Message changed(DataItem from, const std::function<void(pb::DataHeader&)>& change,
                       const std::vector<Frame>& payloads) {
  DataMessage message = sample();
  message.body = DataItems{{std::move(from)}};
  const Message encoded = encode(message);
  pb::DataHeader header;
  const std::string_view bytes = encoded.frames[0].text().substr(kPrefixBytes);
  REQUIRE(header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  change(header);
  std::string prefixed;
  append_prefix(Plane::kData, prefixed);
  Message out;
  out.frames.push_back(Frame::copy_of(prefixed + header.SerializeAsString()));
  out.frames.insert(out.frames.end(), payloads.begin(), payloads.end());
  return out;
}

inline Message with_header(const std::string& bytes, const Message& rest) {
  Message message = rest;
  message.frames.at(0) = Frame::copy_of(bytes);
  return message;
}

inline std::string refusal_of(const Message& message) {
  const auto decoded = decode_data(message);
  REQUIRE_FALSE(decoded.has_value());
  CHECK_FALSE(decoded.error().message.empty());
  return decoded.error().message;
}

}  // namespace taut::test
