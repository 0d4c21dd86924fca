#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
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
using test::refusal_of;

}  // namespace

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
             Contains("images refer to memory that was not shared"));
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

}  // namespace taut
