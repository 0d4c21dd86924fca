#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/unit/client/played.hpp"

using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::one_table;
using test::Played;

}  // namespace

TEST_CASE("a late or repeated answer to a read that is over is ignored", "[client]") {
  Played played;
  played.start();
  played.read(0);
  static_cast<void>(played.sent());
  played.answer(pb::DataItem::VALUE, 0, 0, 0, 5);
  CHECK(played.client.take_completed().size() == 1);
  played.read(1);
  played.answer(pb::DataItem::VALUE, 0, 0, 0, 6);
  CHECK(played.client.take_completed().empty());
  CHECK(played.into == std::vector<float>(4, 5.0F));
  played.answer(pb::DataItem::VALUE, 1, 1, 1, 7);
  played.answer(pb::DataItem::VALUE, 1, 1, 1, 8);
  CHECK(played.client.take_completed().size() == 1);
  CHECK(played.into == std::vector<float>(4, 7.0F));
}

TEST_CASE("a table's version is the minimum over its slices", "[client]") {
  const auto count = static_cast<std::int64_t>(2 * SliceLayout::kSliceElements + 1);
  Played played({test::make_table(0, {count})});
  played.into.assign(static_cast<std::size_t>(count), -1.0F);
  played.start();
  played.read(9);
  const auto items = played.take_items();
  REQUIRE(items.size() == 3);
  const std::int64_t versions[] = {7, 5, 6};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(played.client.take_completed().empty());
    DataItem item = items[i];
    item.kind = pb::DataItem::VALUE;
    item.version = Clock(versions[i]);
    item.payload = test::frame_of(std::vector<float>(item.count, static_cast<float>(i)));
    played.handle(DataItems{{item}});
  }
  const auto completed = played.client.take_completed();
  REQUIRE(completed.size() == 1);
  CHECK(completed[0].version == Clock(5));
  CHECK_FALSE(completed[0].uniform);
  CHECK(played.into.front() == 0);
  CHECK(played.into[SliceLayout::kSliceElements] == 1);
  CHECK(played.into.back() == 2);
}

TEST_CASE("a newer read of a table takes the place of the one under way", "[client]") {
  Played played;
  played.start();
  played.read(0);
  static_cast<void>(played.sent());
  std::vector<float> other(4, -2.0F);
  played.client.read(TableId(0), Clock(1), other);
  CHECK(played.sent() == "READ 1");
  played.answer(pb::DataItem::VALUE, 0, 0, 0, 3);
  CHECK(played.client.take_completed().empty());
  CHECK(played.into == std::vector<float>(4, -1.0F));
  played.answer(pb::DataItem::VALUE, 1, 1, 1, 4);
  CHECK(other == std::vector<float>(4, 4.0F));
}

TEST_CASE("a snapshot and a read of the same table do not disturb each other", "[client]") {
  Played played;
  played.start();
  std::vector<float> copy(4);
  played.read(2);
  played.client.snapshot(TableId(0), copy);
  CHECK(played.sent() == "READ 2, SNAPSHOT 0");
  played.answer(pb::DataItem::SNAPSHOT_VALUE, 0, 0, 1, 8);
  const auto completed = played.client.take_completed();
  REQUIRE(completed.size() == 1);
  CHECK(completed[0].snapshot);
  CHECK(completed[0].uniform);
  CHECK(completed[0].version == Clock(1));
  CHECK(copy == std::vector<float>(4, 8.0F));
  CHECK(played.into == std::vector<float>(4, -1.0F));
  played.answer(pb::DataItem::VALUE, 2, 2, 2, 9);
  CHECK(played.into == std::vector<float>(4, 9.0F));
}

TEST_CASE("values are read as the job's compression says, and snapshots as they are",
          "[client][compression]") {
  Compression compression;
  const math::Encoding half{math::Codec::kFloat16};
  compression.add_pull(1, half);
  const auto answer = [](Played& played, DataItem::Kind kind, const math::Encoding& encoding) {
    DataItem item;
    item.kind = kind;
    item.count = 4;
    item.encoding = encoding;
    std::string bytes(math::encoded_bytes(encoding, 4), '\0');
    math::encode(encoding, std::vector<float>{1, -2.5F, 1024.3F, 0}, {},
                 std::as_writable_bytes(std::span(bytes)).data());
    item.payload = Frame::copy_of(bytes);
    played.handle(DataItems{{item}});
  };
  Played played(one_table(), compression);
  played.start();
  played.read(0);
  answer(played, pb::DataItem::VALUE, half);
  CHECK(played.client.take_completed().size() == 1);
  CHECK(played.into == std::vector<float>{1, -2.5F, 1024, 0});
  played.client.snapshot(TableId(0), played.into);
  answer(played, pb::DataItem::SNAPSHOT_VALUE, {});
  CHECK(played.client.take_completed().size() == 1);
  CHECK(played.into == std::vector<float>{1, -2.5F, 1024.3F, 0});
  CHECK_FALSE(played.client.failure());
  // Who takes values gets them decoded: `into` need not be memory that may be written.
  std::vector<float> taken;
  played.client.on_values([&](std::span<float> at, const Frame& values) {
    CHECK(at.data() == played.into.data());
    taken.resize(values.size() / sizeof(float));
    std::memcpy(taken.data(), values.bytes().data(), values.size());
  });
  played.into.assign(4, -1.0F);
  played.read(0);
  answer(played, pb::DataItem::VALUE, half);
  CHECK(taken == std::vector<float>{1, -2.5F, 1024, 0});
  CHECK(played.into == std::vector<float>(4, -1.0F));
  CHECK(played.client.take_completed().size() == 1);
  // A shard that encodes as another job would.
  played.read(1);
  answer(played, pb::DataItem::VALUE, {math::Codec::kBfloat16});
  CHECK_FALSE(played.client.failure());  // of clock 0: late
  Played other(one_table(), compression);
  other.start();
  other.read(0);
  answer(other, pb::DataItem::VALUE, {math::Codec::kBfloat16});
  REQUIRE(other.client.failure());
  CHECK_THAT(other.client.failure()->message,
             Contains("8 bytes of BF16 arrived, 8 of FP16 were expected"));
}

}  // namespace taut
