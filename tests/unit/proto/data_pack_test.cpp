#include <cstring>

#include "proto/data_message.hpp"
#include "proto/wire_version.hpp"
#include "tests/support/catch.hpp"

namespace taut {
namespace {

DataItem push_of(std::uint32_t table, std::size_t count) {
  DataItem item;
  item.kind = pb::DataItem::PUSH;
  item.table = TableId(table);
  item.count = count;
  std::vector<float> values(count, static_cast<float>(table) + 0.5F);
  item.payload = Frame::copy_of(std::as_bytes(std::span(values)));
  return item;
}

DataMessage message_of(std::vector<std::size_t> counts) {
  DataItems batch;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    batch.items.push_back(push_of(static_cast<std::uint32_t>(i), counts[i]));
  }
  return DataMessage{JobId(1), WorkerId(2), Incarnation(3), std::move(batch)};
}

std::string refusal_of(const Message& frames) {
  const auto decoded = decode_data(frames);
  return decoded ? std::string() : decoded.error().message;
}

}  // namespace

TEST_CASE("small payloads of one message share a frame, large ones have their own", "[codec]") {
  const Message frames = encode(message_of({10, 100'000, 1, 20'000, 7}));
  REQUIRE(frames.frames.size() == 4);
  CHECK(frames.frames[1].size() == (10 + 1 + 7) * sizeof(float));
  const auto decoded = decode_data(frames);
  REQUIRE(decoded);
  const auto& items = std::get<DataItems>(decoded.value().body).items;
  REQUIRE(items.size() == 5);
  for (const DataItem& item : items) {
    REQUIRE(item.payload.size() == item.count * sizeof(float));
    float first = 0;
    float last = 0;
    std::memcpy(&first, item.payload.bytes().data(), sizeof first);
    std::memcpy(&last, item.payload.bytes().data() + item.payload.size() - sizeof last,
                sizeof last);
    CHECK(first == static_cast<float>(item.table.value()) + 0.5F);
    CHECK(last == first);
  }
}

TEST_CASE("one small payload alone is a pack of one", "[codec]") {
  const Message frames = encode(message_of({100'000, 10}));
  REQUIRE(frames.frames.size() == 3);
  CHECK(frames.frames[1].size() == 40);
  CHECK(decode_data(frames).has_value());
}

TEST_CASE("a pack with too few or too many bytes, or none, is refused", "[codec]") {
  Message frames = encode(message_of({10, 20, 30}));
  const Frame pack = frames.frames[1];
  for (std::size_t size = 0; size < pack.size(); ++size) {
    frames.frames[1] = pack.part(0, size);
    CHECK_FALSE(refusal_of(frames).empty());
  }
  std::string longer(pack.text());
  longer += '\0';
  frames.frames[1] = Frame::copy_of(longer);
  CHECK(refusal_of(frames).find("packed bytes") != std::string::npos);
  frames.frames.pop_back();
  CHECK_FALSE(refusal_of(frames).empty());
}

TEST_CASE("a packed count that would overflow is refused", "[codec]") {
  Message frames = encode(message_of({10, 20}));
  pb::DataHeader header;
  REQUIRE(header.ParseFromString(std::string(frames.frames[0].text().substr(kPrefixBytes))));
  for (const std::uint64_t count : {1ULL << 62U, ~0ULL, (1ULL << 62U) + 10}) {
    header.mutable_items()->mutable_items(0)->set_count(count);
    std::string bytes;
    append_prefix(Plane::kData, bytes);
    header.AppendToString(&bytes);
    frames.frames[0] = Frame::copy_of(bytes);
    CHECK(refusal_of(frames).find("elements announced") != std::string::npos);
  }
}

}  // namespace taut
