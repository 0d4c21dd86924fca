#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "proto/data_message.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/proto/data_samples.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::floats;
using test::item;
using test::refusal_of;
using test::sample;
using test::with_header;

}  // namespace

TEST_CASE("items survive the way through frames, each with its own payload", "[codec]") {
  const Message frames = encode(sample());
  const auto decoded = decode_data(frames);
  REQUIRE(decoded.has_value());
  CHECK(decoded.value().job == sample().job);
  CHECK(decoded.value().worker == sample().worker);
  CHECK(decoded.value().incarnation == sample().incarnation);
  const DataMessage original = sample();
  const auto& expected = std::get<DataItems>(original.body).items;
  const auto& items = std::get<DataItems>(decoded.value().body).items;
  REQUIRE(items.size() == expected.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    CAPTURE(i);
    CHECK(items[i].kind == expected[i].kind);
    CHECK(items[i].table == expected[i].table);
    CHECK(items[i].slice == expected[i].slice);
    CHECK(items[i].offset == expected[i].offset);
    CHECK(items[i].count == expected[i].count);
    CHECK(items[i].clock == expected[i].clock);
    CHECK(items[i].version == expected[i].version);
    CHECK(items[i].done == expected[i].done);
    CHECK(items[i].refusal == expected[i].refusal);
    CHECK(items[i].reason == expected[i].reason);
    CHECK(items[i].gradient_norm == expected[i].gradient_norm);
    CHECK(items[i].weight == expected[i].weight);
    CHECK(items[i].payload.text() == expected[i].payload.text());
  }
}

TEST_CASE("large payloads are shared with their frames, not copied", "[codec]") {
  DataMessage message = sample();
  const Frame payload = floats(10'000);
  DataItem push = item(pb::DataItem::PUSH, 10'000);
  push.payload = payload;
  message.body = DataItems{{push}};
  const Message frames = encode(message);
  CHECK(frames.frames.at(1).bytes().data() == payload.bytes().data());
  const auto decoded = decode_data(frames);
  REQUIRE(decoded.has_value());
  const auto& items = std::get<DataItems>(decoded.value().body).items;
  CHECK(items.at(0).payload.bytes().data() == payload.bytes().data());
}

TEST_CASE("greetings and openings survive the way through frames", "[codec]") {
  const auto round_trip = [](const auto& body) {
    using Body = std::decay_t<decltype(body)>;
    const auto decoded = decode_data(encode(DataMessage{JobId(1), {}, {}, body}));
    REQUIRE(decoded.has_value());
    REQUIRE(std::holds_alternative<Body>(decoded.value().body));
    CHECK(std::get<Body>(decoded.value().body).SerializeAsString() == body.SerializeAsString());
  };
  pb::DataHello hello;
  hello.set_wire_version(1);
  hello.set_job_hash(std::string("\0\xff\x80", 3));
  round_trip(hello);
  pb::DataHelloReply reply;
  reply.set_reason("because");
  round_trip(reply);
  pb::OpenTables open;
  open.add_tables()->set_name("conv1");
  round_trip(open);
  pb::OpenTablesReply opened;
  opened.set_accepted(true);
  round_trip(opened);
}

TEST_CASE("requests about parts survive the way through frames, and no other payload does",
          "[codec]") {
  DataPartRequest write;
  write.head.set_kind(pb::PartRequest::WRITE);
  write.head.set_request(7);
  write.head.set_folder("saved/net_iter_5");
  write.head.set_file("shard0.safetensors.part1");
  write.head.set_offset(1ULL << 40U);
  write.payload = floats(3);
  const Message message = encode(DataMessage{{}, {}, {}, write});
  const auto decoded = decode_data(message);
  REQUIRE(decoded.has_value());
  const auto& same = std::get<DataPartRequest>(decoded.value().body);
  CHECK(same.head.SerializeAsString() == write.head.SerializeAsString());
  CHECK(same.payload.text() == write.payload.text());
  DataPartReply reply;
  reply.head.set_request(7);
  reply.payload = floats(2);
  const auto answered = decode_data(encode(DataMessage{{}, {}, {}, reply}));
  CHECK(std::get<DataPartReply>(answered.value().body).payload.size() == 8);

  Message more = message;
  more.frames.push_back(floats(1));
  CHECK_THAT(refusal_of(more), Contains("2 payload frames with a part of a checkpoint"));
  write.head.set_kind(pb::PartRequest::SEAL);
  CHECK_THAT(refusal_of(encode(DataMessage{{}, {}, {}, write})),
             Contains("a payload with SEAL of a part"));
  write.head.set_kind(pb::PartRequest::UNKNOWN);
  CHECK_THAT(refusal_of(encode(DataMessage{{}, {}, {}, write})),
             Contains("a request of unknown kind 0"));
  write.head.set_kind(pb::PartRequest::WRITE);
  write.payload = floats((16U << 20U) / sizeof(float) + 1);
  CHECK_THAT(refusal_of(encode(DataMessage{{}, {}, {}, write})), Contains("the limit is 16777216"));
}

TEST_CASE("a hello's long strings are refused, and a reply's reason is cut", "[codec]") {
  pb::DataHello hello;
  hello.set_build(std::string(128, 'x'));
  CHECK(decode_data(encode({JobId(1), {}, {}, hello})).has_value());
  hello.set_build(std::string(129, 'x'));
  CHECK_THAT(refusal_of(encode({JobId(1), {}, {}, hello})), Contains("hello.build has 129 bytes"));
  pb::OpenTablesReply reply;
  reply.set_reason(std::string(5000, 'x'));
  const auto cut = decode_data(encode({JobId(1), {}, {}, reply}));
  REQUIRE(cut.has_value());
  CHECK(std::get<pb::OpenTablesReply>(cut.value().body).reason().size() == 4096);
}

TEST_CASE("of another wire version only a data hello and its reply are read", "[codec]") {
  const auto with_version = [](const DataMessage& message) {
    Message frames = encode(message);
    std::string bytes(frames.frames[0].text());
    bytes[6] = kWireVersion + 1;
    return with_header(bytes, frames);
  };
  const auto refused = decode_data(with_version(sample()));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kMismatch);
  CHECK_THAT(refused.error().message, Contains("version " + std::to_string(kWireVersion + 1)) &&
                                          Contains("has " + std::to_string(kWireVersion)));
  DataMessage open{JobId(1), {}, {}, pb::OpenTables()};
  CHECK(decode_data(with_version(open)).error().code == ErrorCode::kMismatch);
  CHECK(decode_data(with_version({JobId(1), {}, {}, pb::DataHello()})).has_value());
  CHECK(decode_data(with_version({JobId(1), {}, {}, pb::DataHelloReply()})).has_value());
}

TEST_CASE("the payload of a message is that of its items, images, logged updates or parts",
          "[codec]") {
  const auto frame = [](std::size_t bytes) { return Frame::copy_of(std::string(bytes, 'x')); };
  DataMessage message;
  DataItem item;
  item.payload = frame(5);
  message.body = DataItems{{item, item}};
  CHECK(payload_bytes(message) == 10);
  DataImages images;
  ImageItem& image = images.images.emplace_back();
  image.values = frame(8);
  image.states = {frame(8), frame(8)};
  image.keys = frame(3);
  images.logged.emplace_back().update.gradient = frame(4);
  message.body = images;
  CHECK(payload_bytes(message) == 31);
  message.body = DataPartRequest{{}, frame(6)};
  CHECK(payload_bytes(message) == 6);
  message.body = DataPartReply{{}, frame(7)};
  CHECK(payload_bytes(message) == 7);
  message.body = pb::Describe();
  CHECK(payload_bytes(message) == 0);
}

}  // namespace taut
