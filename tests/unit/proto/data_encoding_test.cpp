#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/data_message.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/proto/data_samples.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::changed;
using test::item;
using test::refusal_of;
using test::sample;

}  // namespace

TEST_CASE("a push names its encoding, which says how long its payload is", "[codec]") {
  using math::Codec;
  const std::vector<math::Encoding> encodings{
      {Codec::kFloat32},
      {Codec::kFloat16},
      {Codec::kBfloat16},
      {Codec::kInt8},
      {Codec::kOneBit},
      {Codec::kTopK, 5},
      {Codec::kRandomK, 5},
      {Codec::kRandomK, 1U << 18U},
      {.codec = Codec::kLowRank, .rank = 64, .columns = 1U << 18U},
      {.codec = Codec::kLowRank, .rank = 1, .columns = 1}};
  for (const math::Encoding& encoding : encodings) {
    for (const std::size_t count : {1UL, 300UL, 50'000UL}) {
      DataItem push = item(pb::DataItem::PUSH_READ);
      push.count = count;
      push.encoding = encoding;
      std::string bytes(math::encoded_bytes(encoding, count), '\0');
      std::vector<float> state(math::state_values(encoding, count));
      math::encode(encoding, std::vector<float>(count, 0.5F), {},
                   std::as_writable_bytes(std::span(bytes)).data(), state);
      push.payload = Frame::copy_of(bytes);
      DataMessage message = sample();
      message.body = DataItems{{push, push}};
      const Message frames = encode(message);
      const auto decoded = decode_data(frames);
      REQUIRE(decoded.has_value());
      for (const DataItem& read : std::get<DataItems>(decoded.value().body).items) {
        CHECK(read.encoding == encoding);
        CHECK(read.count == count);
        CHECK(read.payload.text() == push.payload.text());
      }
      // One byte less or more than the encoding has.
      for (const int change : {-1, 1}) {
        Message wrong = frames;
        const std::string other(frames.frames.back().size() + static_cast<std::size_t>(change),
                                '\x11');
        wrong.frames.back() = Frame::copy_of(other);
        CHECK_THAT(refusal_of(wrong), Contains("elements announced") || Contains("items name") ||
                                          Contains("places of TOP_K"));
      }
    }
  }
}

TEST_CASE("a value names its encoding, which leaves nothing out", "[codec]") {
  using math::Codec;
  for (const Codec codec : {Codec::kFloat32, Codec::kFloat16, Codec::kBfloat16, Codec::kInt8}) {
    DataItem value = item(pb::DataItem::VALUE);
    value.count = 300;
    value.encoding = {codec};
    std::string bytes(math::encoded_bytes(value.encoding, value.count), '\0');
    math::encode(value.encoding, std::vector<float>(300, 0.5F), {},
                 std::as_writable_bytes(std::span(bytes)).data());
    value.payload = Frame::copy_of(bytes);
    DataMessage message = sample();
    message.body = DataItems{{value}};
    const auto decoded = decode_data(encode(message));
    REQUIRE(decoded.has_value());
    const DataItem& read = std::get<DataItems>(decoded.value().body).items[0];
    CHECK(read.encoding == value.encoding);
    CHECK(read.payload.text() == bytes);
  }
}

TEST_CASE("an encoding that is unknown, or that an item must not have, is refused", "[codec]") {
  const std::vector<Frame> payload{Frame::copy_of(std::string(8, '\x11'))};
  const auto set_type = [](int type) {
    return [type](pb::DataHeader& header) {
      pb::DataItem& one = *header.mutable_items()->mutable_items(0);
      one.set_element_type(static_cast<pb::DataItem::ElementType>(type));
    };
  };
  CHECK_THAT(refusal_of(changed(item(pb::DataItem::PUSH, 2), set_type(99), payload)),
             Contains("element type 99 in layout 0 is unknown"));
  CHECK_THAT(refusal_of(changed(item(pb::DataItem::PUSH, 2), set_type(-1), payload)),
             Contains("element type -1"));
  CHECK_THAT(refusal_of(changed(item(pb::DataItem::VALUE, 4), set_type(4), payload)),
             Contains("a data item of kind VALUE is encoded as ONE_BIT, which it must not be"));
  CHECK_THAT(refusal_of(changed(item(pb::DataItem::SNAPSHOT_VALUE, 4), set_type(1), payload)),
             Contains("a data item of kind SNAPSHOT_VALUE is encoded as FP16"));
  const auto too_many = [](pb::DataHeader& header) {
    pb::DataItem& one = *header.mutable_items()->mutable_items(0);
    one.set_element_type(pb::DataItem::INT8);
    one.set_count(std::numeric_limits<std::uint64_t>::max());
  };
  CHECK_THAT(refusal_of(changed(item(pb::DataItem::PUSH, 2), too_many, payload)),
             Contains("elements announced as INT8"));
}

TEST_CASE("how sparse a push is must be in its range, and of a sparse encoding", "[codec]") {
  const std::vector<Frame> payload{Frame::copy_of(std::string(8, '\x11'))};
  const auto set_every = [](pb::DataItem::ElementType type, std::uint32_t every) {
    return [type, every](pb::DataHeader& header) {
      pb::DataItem& one = *header.mutable_items()->mutable_items(0);
      one.set_element_type(type);
      one.set_every(every);
    };
  };
  const DataItem push = item(pb::DataItem::PUSH, 2);
  for (const auto type : {pb::DataItem::TOP_K, pb::DataItem::RANDOM_K}) {
    for (const std::uint32_t every : {0U, 1U, (1U << 18U) + 1, ~0U}) {
      CHECK_THAT(refusal_of(changed(push, set_every(type, every), payload)),
                 Contains("it must be from 2 to 262144"));
    }
  }
  CHECK_THAT(refusal_of(changed(push, set_every(pb::DataItem::ONE_BIT, 3), payload)),
             Contains("one of 3 values is sent as ONE_BIT; it must be from 0 to 0"));
}

TEST_CASE("a push whose places are not the slice's is refused", "[codec]") {
  DataItem push = item(pb::DataItem::PUSH);
  push.count = 20;
  push.encoding = {math::Codec::kTopK, 10};
  const auto message_of = [&](std::uint8_t first, std::uint8_t second) {
    std::string bytes(math::encoded_bytes(push.encoding, push.count), '\0');
    bytes[0] = 2;  // both are in the first block
    bytes[4] = static_cast<char>(first);
    bytes[6] = static_cast<char>(second);
    push.payload = Frame::copy_of(bytes);
    DataMessage message = sample();
    message.body = DataItems{{push}};
    return encode(message);
  };
  CHECK(decode_data(message_of(3, 19)).has_value());
  for (const auto& [first, second] : {std::pair{3, 3}, {4, 3}, {3, 20}}) {
    CHECK_THAT(
        refusal_of(message_of(static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(second))),
        Contains("places of TOP_K that do not ascend"));
  }
}

}  // namespace taut
