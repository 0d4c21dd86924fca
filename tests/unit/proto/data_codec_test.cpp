#include <google/protobuf/stubs/logging.h>

#include <functional>
#include <limits>
#include <random>
#include <string>

#include "proto/data_message.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

Frame floats(std::size_t count) {
  return Frame::copy_of(std::string(count * sizeof(float), '\x3f'));
}

DataItem item(DataItem::Kind kind, std::size_t count = 0) {
  DataItem made;
  made.kind = kind;
  made.table = TableId(3);
  made.slice = SliceId(2);
  made.offset = (1ULL << 40U) + 5;
  made.count = count;
  made.clock = Clock(1'000'000'007);
  made.version = Clock(12);
  made.done = Clock(13);
  made.gradient_norm = 0.5F;
  if (kind == pb::DataItem::PUSH) made.weight = 1.75F;
  if (count > 0) made.payload = floats(count);
  return made;
}

DataMessage sample() {
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
Message changed(DataItem from, const std::function<void(pb::DataHeader&)>& change,
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

Message with_header(const std::string& bytes, const Message& rest) {
  Message message = rest;
  message.frames.at(0) = Frame::copy_of(bytes);
  return message;
}

std::string refusal_of(const Message& message) {
  const auto decoded = decode_data(message);
  REQUIRE_FALSE(decoded.has_value());
  CHECK_FALSE(decoded.error().message.empty());
  return decoded.error().message;
}

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

TEST_CASE("images survive the way through frames, and those without their payload are refused",
          "[codec]") {
  DataImages images;
  images.shard = ShardId(3);
  images.term = 2;
  images.copy = 5;
  images.tables.emplace_back().set_name("conv1");
  ImageItem& image = images.images.emplace_back();
  image.table = TableId(1);
  image.slice = SliceId(4);
  image.sequence = 9;
  image.version = Clock(7);
  image.applications = 11;
  image.done = {{WorkerId(0), Clock(7)}, {WorkerId(2), Clock(8)}};
  image.values = floats(3);
  image.states = {floats(3), floats(3)};
  const Message message = encode(DataMessage{JobId(1), {}, {}, images});
  const auto decoded = decode_data(message);
  REQUIRE(decoded.has_value());
  const auto& same = std::get<DataImages>(decoded.value().body);
  CHECK(same.shard == images.shard);
  CHECK(same.term == 2);
  CHECK(same.copy == 5);
  CHECK(same.tables.size() == 1);
  REQUIRE(same.images.size() == 1);
  CHECK(same.images[0].sequence == 9);
  CHECK(same.images[0].version == Clock(7));
  CHECK(same.images[0].applications == 11);
  CHECK(same.images[0].done == image.done);
  CHECK(same.images[0].states.size() == 2);

  Message less = message;
  less.frames.pop_back();
  CHECK_THAT(refusal_of(less), Contains("an image without its payload"));
  Message more = message;
  more.frames.push_back(floats(1));
  CHECK_THAT(refusal_of(more), Contains("4 payload frames, but the images and updates name 3"));
  Message uneven = message;
  uneven.frames.back() = floats(2);
  CHECK_THAT(refusal_of(uneven), Contains("a state of 8 bytes for values of 12"));
}

TEST_CASE("images in shared memory name places for all that they have, and whose memory it is",
          "[codec]") {
  const auto with = [](const std::function<void(pb::SliceImages&)>& change) {
    pb::DataHeader header;
    pb::SliceImages& wire = *header.mutable_images();
    wire.set_lent_to(std::string(16, 'b'));
    wire.mutable_shared_memory()->set_probe(std::string(16, 'p'));
    pb::SliceImages::Image& image = *wire.add_images();
    image.set_states(1);
    image.set_bytes(4096);
    image.add_places()->set_offset(64);
    image.add_places()->set_loan(1);
    change(wire);
    Message message = encode(DataMessage{JobId(1), {}, {}, DataImages{}});
    const auto prefix = message.frames[0].bytes().first(kPrefixBytes);
    std::string bytes(reinterpret_cast<const char*>(prefix.data()), prefix.size());
    bytes += header.SerializeAsString();
    return Message{{Frame::copy_of(bytes)}};
  };
  const auto decoded = decode_data(with([](pb::SliceImages&) {}));
  REQUIRE(decoded.has_value());
  const auto& batch = std::get<DataImages>(decoded.value().body);
  REQUIRE(batch.images.at(0).lent.size() == 2);
  CHECK(batch.images[0].lent[0].offset == 64);
  CHECK(batch.images[0].lent[1].loan == 1);
  CHECK(batch.images[0].lent_bytes == 4096);
  CHECK(batch.lent_to.has_value());

  CHECK_THAT(refusal_of(with([](auto& wire) { wire.mutable_images(0)->set_states(3); })),
             Contains("an image of 3 states and 0 rows in 2 places"));
  CHECK_THAT(refusal_of(with([](auto& wire) { wire.mutable_images(0)->set_rows(3); })),
             Contains("an image of 1 states and 3 rows in 2 places"));
  CHECK_THAT(refusal_of(with([](auto& wire) { wire.clear_lent_to(); })),
             Contains("images in places of no memory"));
  CHECK_THAT(refusal_of(with([](auto& wire) { wire.clear_shared_memory(); })),
             Contains("images that are lent from no memory"));
  CHECK_THAT(refusal_of(with([](auto& wire) { wire.set_lent_to("b"); })),
             Contains("images that are lent from no memory"));
}

TEST_CASE("images of rows survive the way through frames, and impossible ones are refused",
          "[codec][rows]") {
  const auto keys = [](std::vector<std::uint64_t> numbers,
                       const std::vector<std::int64_t>& clocks) {
    for (const std::int64_t clock : clocks) numbers.push_back(static_cast<std::uint64_t>(clock));
    return Frame::copy_of(std::as_bytes(std::span(numbers)));
  };
  DataImages images;
  images.images.resize(2);
  ImageItem& image = images.images[0];
  image.table = TableId(1);
  image.slice = SliceId(4);
  image.sequence = 9;
  image.base = 8;
  image.rows = 5;
  image.dropped = 2;
  image.keys = keys({3, 7, 11}, {4, ImageItem::kDropped, 6});
  image.values = floats(6);
  image.states = {floats(6)};
  // A bucket without rows.
  images.images[1].states = {Frame()};
  const auto sent = [&] { return encode(DataMessage{JobId(1), {}, {}, images}); };
  const auto decoded = decode_data(sent());
  REQUIRE(decoded.has_value());
  const auto& same = std::get<DataImages>(decoded.value().body);
  REQUIRE(same.images.size() == 2);
  CHECK(same.images[0].base == 8);
  CHECK(same.images[0].rows == 5);
  CHECK(same.images[0].dropped == 2);
  CHECK(same.images[0].keys.text() == image.keys.text());
  CHECK(same.images[0].values.text() == image.values.text());
  CHECK(same.images[0].states.size() == 1);
  CHECK(same.images[1].keys.empty());

  Message less = sent();
  less.frames.pop_back();
  CHECK_THAT(refusal_of(less), Contains("an image without its payload"));
  const auto refused = [&](Frame changed) {
    images.images[0].keys = std::move(changed);
    return refusal_of(sent());
  };
  CHECK_THAT(refused(keys({3, 3, 11}, {4, -1, 6})), Contains("numbers that do not ascend"));
  CHECK_THAT(refused(keys({3, 7, ~std::uint64_t{0}}, {4, -1, 6})), Contains("do not ascend"));
  CHECK_THAT(refused(keys({3, 7, 11}, {4, -2, 6})), Contains("impossible clocks"));
  CHECK_THAT(refused(keys({3, 7, 11}, {-1, -1, -1})), Contains("other values"));
  CHECK_THAT(refused(keys({3, 7, 11, 13}, {0, 0, 0, 0})), Contains("other values"));
  CHECK_THAT(refused(keys({1, 2, 3, 4, 5, 6, 7, 8}, {0, 0, 0, 0, 0, 0, 0, 0})),
             Contains("too few or too many numbers"));
  CHECK_THAT(refused(Frame()), Contains("too few or too many numbers"));
  CHECK_THAT(refused(floats(5)), Contains("too few or too many numbers"));
  images.images[0].rows = std::numeric_limits<std::uint64_t>::max();
  CHECK_THAT(refused(keys({3, 7, 11}, {4, -1, 6})), Contains("too few or too many numbers"));
}

TEST_CASE("logged updates travel with images, and are as whole as pushes", "[codec]") {
  DataImages batch;
  batch.shard = ShardId(3);
  batch.logged.push_back(
      {TableId(1), SliceId(4), WorkerId(2), 9, 3, Update{Clock(7), floats(3), 0.5F, {}, 2}});
  const Message message = encode(DataMessage{JobId(1), {}, {}, batch});
  const auto decoded = decode_data(message);
  REQUIRE(decoded.has_value());
  const auto& same = std::get<DataImages>(decoded.value().body);
  REQUIRE(same.logged.size() == 1);
  const LoggedUpdate& one = same.logged[0];
  CHECK(one.table == TableId(1));
  CHECK(one.slice == SliceId(4));
  CHECK(one.worker == WorkerId(2));
  CHECK(one.number == 9);
  CHECK(one.count == 3);
  CHECK(one.update.clock == Clock(7));
  CHECK(one.update.norm == 0.5F);
  CHECK(one.update.weight == 2);
  CHECK(one.update.gradient.size() == 12);

  Message less = message;
  less.frames.pop_back();
  CHECK_THAT(refusal_of(less), Contains("a logged update without its payload"));
  Message shorter = message;
  shorter.frames.back() = floats(2);
  CHECK_THAT(refusal_of(shorter), Contains("3 elements of a logged update announced as FLOAT32, 8 "
                                           "bytes received"));
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

TEST_CASE("a data message that is cut off at any byte is refused", "[codec]") {
  const Message whole = encode(sample());
  const std::string header(whole.frames[0].text());
  for (std::size_t length = 0; length < header.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(decode_data(with_header(header.substr(0, length), whole)).has_value());
  }
  for (std::size_t frame = 1; frame < whole.frames.size(); ++frame) {
    for (std::size_t length = 0; length < whole.frames[frame].size(); ++length) {
      CAPTURE(frame, length);
      Message cut = whole;
      cut.frames[frame] = cut.frames[frame].part(0, length);
      CHECK_THAT(refusal_of(cut), Contains("bytes received"));
    }
  }
}

TEST_CASE("mutated bytes decode to something consistent or are refused", "[codec]") {
  const std::uint64_t seed = 77;
  CAPTURE(seed);
  const google::protobuf::LogSilencer silent;  // it prints a line for each text that is none
  std::mt19937_64 random(seed);
  const Message whole = encode(sample());
  const std::string header(whole.frames[0].text());
  int refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string bytes = header;
    const std::size_t changes = 1 + random() % 4;
    for (std::size_t c = 0; c < changes; ++c) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto decoded = decode_data(with_header(bytes, whole));
    if (!decoded) {
      ++refused;
      continue;
    }
    const auto* batch = std::get_if<DataItems>(&decoded.value().body);
    if (batch == nullptr) continue;
    for (const DataItem& one : batch->items) {
      const bool fits = one.payload.empty() || one.payload.size() == one.count * sizeof(float);
      const bool valid =
          fits && one.clock >= Clock(0) && one.clock < Clock::never() && one.gradient_norm >= 0;
      if (!valid) FAIL("mutation " << i << " decodes to an item that is not valid");
    }
  }
  CHECK(refused > 10'000);
}

TEST_CASE("random bytes after the prefix never abort", "[codec]") {
  const std::uint64_t seed = 78;
  CAPTURE(seed);
  const google::protobuf::LogSilencer silent;
  std::mt19937_64 random(seed);
  std::string prefix;
  append_prefix(Plane::kData, prefix);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 80, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    Message message;
    message.frames.push_back(Frame::copy_of(prefix + bytes));
    if (random() % 2 == 0) message.frames.push_back(floats(1));
    if (!decode_data(message)) ++refused;
  }
  CHECK(refused > 19'000);
}

TEST_CASE("missing or extra frames are refused with their number", "[codec]") {
  CHECK_FALSE(decode_data(Message()).has_value());
  DataMessage large = sample();
  large.body = DataItems{{item(pb::DataItem::PUSH, 8192), item(pb::DataItem::VALUE, 8192)}};
  REQUIRE(encode(large).frames.size() == 3);
  Message fewer = encode(large);
  fewer.frames.pop_back();
  CHECK_THAT(refusal_of(fewer), Contains("8192"));
  Message more = encode(large);
  more.frames.push_back(floats(1));
  CHECK_THAT(refusal_of(more), Contains("3 payload frames"));
  more = encode(sample());
  more.frames.push_back(floats(1));
  CHECK_FALSE(decode_data(more).has_value());
  Message hello = encode(DataMessage{JobId(1), {}, {}, pb::DataHello()});
  hello.frames.push_back(floats(1));
  CHECK_FALSE(decode_data(hello).has_value());
}

TEST_CASE("a count that does not match its payload is refused, however large it is", "[codec]") {
  for (const std::uint64_t count :
       {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{4}, std::uint64_t{12},
        (std::uint64_t{1} << 62U) + 3,  // times four it wraps around to the right size
        std::numeric_limits<std::uint64_t>::max()}) {
    CAPTURE(count);
    const auto message = changed(item(pb::DataItem::PUSH, 3),
                                 [count](pb::DataHeader& header) {
                                   header.mutable_items()->mutable_items(0)->set_count(count);
                                 },
                                 {floats(3)});
    CHECK_THAT(refusal_of(message), Contains(std::to_string(count)) && Contains("12 "));
  }
}

TEST_CASE("kinds, types, layouts, clocks and norms that cannot be are refused", "[codec]") {
  const auto refused = [](DataItem::Kind kind, const auto& change) {
    const std::size_t count = kind == pb::DataItem::PUSH ? 3 : 0;
    std::vector<Frame> payloads;
    if (count > 0) payloads.push_back(floats(count));
    return !decode_data(changed(
                            item(kind, count),
                            [&](pb::DataHeader& header) {
                              change(*header.mutable_items()->mutable_items(0));
                            },
                            payloads))
                .has_value();
  };
  const auto push = pb::DataItem::PUSH;
  const auto read = pb::DataItem::READ;
  REQUIRE_FALSE(refused(push, [](pb::DataItem&) {}));
  REQUIRE_FALSE(refused(read, [](pb::DataItem&) {}));
  CHECK(refused(read, [](auto& one) { one.set_kind(pb::DataItem::UNKNOWN); }));
  CHECK(refused(read, [](auto& one) { one.set_kind(static_cast<DataItem::Kind>(15)); }));
  CHECK(refused(read, [](auto& one) { one.set_kind(static_cast<DataItem::Kind>(-1)); }));
  CHECK(refused(push, [](auto& one) { one.set_layout(pb::DataItem::ROWS); }));
  CHECK(refused(
      push, [](auto& one) { one.set_element_type(static_cast<pb::DataItem::ElementType>(1)); }));
  CHECK(refused(push, [](auto& one) { one.set_payload(false); }));
  CHECK(refused(read, [](auto& one) { one.set_payload(true); }));
  CHECK(refused(push, [](auto& one) { one.set_clock(-1); }));
  CHECK(refused(read, [](auto& one) { one.set_clock(std::numeric_limits<std::int64_t>::min()); }));
  CHECK(refused(read, [](auto& one) { one.set_clock(Clock::never().value()); }));
  CHECK(refused(push, [](auto& one) { one.set_gradient_norm(-1); }));
  CHECK(refused(push, [](auto& one) { one.set_weight(-1); }));
  CHECK(refused(push, [](auto& one) { one.set_weight(std::numeric_limits<float>::infinity()); }));
  CHECK(refused(push, [](auto& one) { one.set_weight(std::numeric_limits<float>::quiet_NaN()); }));
  CHECK(refused(push,
                [](auto& one) { one.set_gradient_norm(std::numeric_limits<float>::quiet_NaN()); }));
}

TEST_CASE("a header of more items than a message may have is refused", "[codec]") {
  DataMessage message = sample();
  message.body =
      DataItems{std::vector<DataItem>(4 * DataItems::kMaxItems, item(pb::DataItem::READ))};
  CHECK_FALSE(decode_data(encode(message)).has_value());
  message.body = DataItems{std::vector<DataItem>(DataItems::kMaxItems, item(pb::DataItem::READ))};
  CHECK(decode_data(encode(message)).has_value());
}

TEST_CASE("an oversized header is refused before it is parsed", "[codec]") {
  std::string bytes;
  append_prefix(Plane::kData, bytes);
  bytes.resize((16U << 20U) + 1, '\x7f');
  Message message;
  message.frames.push_back(Frame::copy_of(bytes));
  CHECK_THAT(refusal_of(message), Contains("limit"));
}

TEST_CASE("a data header without a body, or of another plane, is refused", "[codec]") {
  std::string prefix;
  append_prefix(Plane::kData, prefix);
  Message empty;
  empty.frames.push_back(Frame::copy_of(prefix));
  CHECK_THAT(refusal_of(empty), Contains("body"));
  std::string control;
  append_prefix(Plane::kControl, control);
  Message wrong;
  wrong.frames.push_back(Frame::copy_of(control));
  CHECK_THAT(refusal_of(wrong), Contains("right port"));
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
