#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "proto/data_message.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/proto/data_samples.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::changed;
using test::floats;
using test::item;
using test::refusal_of;
using test::sample;
using test::with_header;

}  // namespace

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

}  // namespace taut
