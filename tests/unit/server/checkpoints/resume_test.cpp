#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/formats/checkpoint_reader.hpp"
#include "proto/wire_version.hpp"
#include "server/checkpoints/resume_images.hpp"
#include "server/shard.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/server/checkpoints/service.hpp"
#include "tests/unit/server/counted_memory.hpp"
#include "tests/unit/server/job_maker.hpp"

namespace taut::server {
namespace {

using test::job_of;
using test::JobMaker;
using test::kPeer;
using test::read_images;
using test::resumed;
using test::same_bits;
using test::Service;
using test::with_slots;
using test::write_checkpoint;

}  // namespace

TEST_CASE("a job resumed in BSP ends in the same bits, on other numbers of shards too",
          "[checkpoint]") {
  for (const char* type : {"SGD", "Adam", "Nesterov"}) {
    const test::TempFolder folder;
    Service whole(with_slots(job_of(2, Slack(0), type)), 2);
    whole.order(1, 5);
    whole.push_all(0, 9);
    write_checkpoint(whole, 5, folder.path() / "x");
    for (const std::uint32_t shards : {1U, 2U, 3U}) {
      const JobMaker job = resumed(whole.job, 2, 5, folder.path() / "x", 2);
      Service rest(job, shards, read_images(job, shards));
      REQUIRE(rest.opened.accepted());
      rest.push_all(5, 9);
      CHECK(same_bits(rest.values(), whole.values()));
    }
  }
}

TEST_CASE("a job resumed on arrival drops updates that the checkpoint has already",
          "[checkpoint]") {
  const test::TempFolder folder;
  Service whole(with_slots(job_of(2, Slack::unbounded(), "SGD")), 2);
  for (std::int64_t clock = 0; clock < 8; ++clock) whole.push(1, clock);
  whole.order(1, 4);
  for (std::int64_t clock = 0; clock < 4; ++clock) whole.push(0, clock);
  write_checkpoint(whole, 4, folder.path() / "x");
  const std::vector<float> held = whole.values();

  const JobMaker job = resumed(whole.job, 2, 4, folder.path() / "x", 2);
  Service rest(job, 3, read_images(job, 3));
  for (std::int64_t clock = 4; clock < 8; ++clock) rest.push(1, clock);
  CHECK(same_bits(rest.values(), held));
  rest.push(1, 8);
  CHECK(!same_bits(rest.values(), held));
  whole.push(1, 8);
  whole.push_all(4, 4);
  for (std::int64_t clock = 4; clock < 9; ++clock) {
    whole.push(0, clock);
    rest.push(0, clock);
  }
  CHECK(same_bits(rest.values(), whole.values()));
}

TEST_CASE("with another number of workers all start at the checkpoint's clock", "[checkpoint]") {
  const test::TempFolder folder;
  Service whole(with_slots(job_of(2, Slack::unbounded(), "SGD")), 1);
  whole.push_all(0, 3);
  whole.push(1, 3);
  whole.order(1, 3);
  write_checkpoint(whole, 3, folder.path() / "x");
  const std::vector<float> held = whole.values();
  const JobMaker job = resumed(whole.job, 3, 3, folder.path() / "x", 2);
  Service rest(job, 1, read_images(job, 1));
  CHECK(same_bits(rest.values(), held));
  rest.push_all(3, 4);
  CHECK(!same_bits(rest.values(), held));
}

TEST_CASE("a resumed job with other tables or another rule is refused, with both sides",
          "[checkpoint]") {
  const test::TempFolder folder;
  Service whole(with_slots(job_of(1, Slack(0))), 1);
  whole.order(1, 2);
  whole.push_all(0, 2);
  write_checkpoint(whole, 2, folder.path() / "x");
  JobMaker job = resumed(whole.job, 1, 2, folder.path() / "x", 1);
  auto images = read_images(job, 1);
  images[0].tables[1].shape = {8};
  const Service other(job, 1, std::move(images));
  CHECK(!other.opened.accepted());
  CHECK(other.opened.reason() ==
        "the checkpoint holds table \"table1\" of 8, the job has \"table1\" of 7");
  job.solver().set_type("SGD");
  const auto refused = read_shard_images(job.state, 1);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("has 2 numbers with each value, and solver type SGD keeps "
                                     "1") != std::string::npos);
  job.solver().set_type("Adam");
  job.state.mutable_resume()->set_clock(3);
  CHECK(read_shard_images(job.state, 1).error().message.find("is of clock 2 now") !=
        std::string::npos);
}

TEST_CASE("a checkpoint whose tables have no room is not read", "[checkpoint]") {
  const test::TempFolder folder;
  Service whole(with_slots(job_of(1, Slack(0))), 1);
  whole.order(1, 2);
  whole.push_all(0, 2);
  write_checkpoint(whole, 2, folder.path() / "x");
  const JobMaker job = resumed(whole.job, 1, 2, folder.path() / "x", 1);
  const auto read = [&](const TableMemory& memory) {
    const OpenSaved open = [](const pb::ServerJob& state) {
      return CheckpointReader::open_to_resume(state.resume().folder());
    };
    return read_shard_images(job.state, 1, open, &memory);
  };
  // 50 values, 2 states of the 37 that are trained, and 4 slices.
  const std::uint64_t needed = (50 + 2 * 37) * sizeof(float) + 4 * kSliceBytes;
  CHECK(read(TableMemory(Bytes(needed))).has_value());
  const auto refused = read(TableMemory(Bytes(needed - 1)));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("table \"table3\" needs") == 0);
}

TEST_CASE("a server that ends reads no further slice of a checkpoint", "[checkpoint]") {
  const test::TempFolder folder;
  Service whole(with_slots(job_of(1, Slack(0))), 1);
  whole.order(1, 2);
  whole.push_all(0, 2);
  write_checkpoint(whole, 2, folder.path() / "x");
  const JobMaker job = resumed(whole.job, 1, 2, folder.path() / "x", 1);
  std::atomic<bool> stop = false;
  const OpenSaved open = [&](const pb::ServerJob& state) {
    stop = true;
    return CheckpointReader::open_to_resume(state.resume().folder());
  };
  const auto ended = read_shard_images(job.state, 1, open, nullptr, &stop);
  REQUIRE_FALSE(ended.has_value());
  CHECK(ended.error().code == ErrorCode::kClosed);
}

TEST_CASE("a resumed job's slices need no more memory than their images, and one slice",
          "[checkpoint]") {
  constexpr std::size_t kSlices = 16;
  constexpr std::uint64_t kElements = 256;
  const auto counted = std::make_shared<test::CountedMemory>();
  BufferPool pool(Bytes(0), counted);
  JobMaker job(1);
  const TableSpec table = test::make_table(0, {kSlices * kElements});
  ShardImages begin;
  begin.tables = {table};
  const SliceLayout layout(begin.tables, std::array{ShardId(0)}, kElements);
  for (const Slice& place : layout.slices()) {
    SliceImage& image = begin.slices[layout.index_of(place.table, place.slice)];
    image.place = place;
    image.done[WorkerId(0)] = Clock(0);
    image.values = pool.acquire(place.count * sizeof(float));
    std::ranges::fill(image.values.floats(), 1.0F);
  }
  REQUIRE(begin.slices.size() == kSlices);
  const std::size_t images = counted->used;
  Shard shard(ShardId(0), pool, kElements);
  (void)shard.set_job(job.view(), std::move(begin));
  const auto say = [&](auto body) {
    return shard.handle(
        kPeer, DataMessage{JobId(7), WorkerId(0), job.incarnation(WorkerId(0)), std::move(body)},
        TimePoint());
  };
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(job.hash());
  (void)say(hello);
  pb::OpenTables open;
  *open.add_tables() = to_wire(table);
  counted->peak = counted->used;
  const auto answers = say(open);
  CHECK(std::get<pb::OpenTablesReply>(answers.at(0).message.body).accepted());
  CHECK(counted->used == images);
  CHECK(counted->peak <= images + images / kSlices);
}

TEST_CASE("a resumed job's slice that was not read is no slice of initial values", "[checkpoint]") {
  BufferPool pool(Bytes(0));
  JobMaker job(1);
  const TableSpec table = test::make_table(0, {16});
  ShardImages begin;
  begin.tables = {table};
  Shard shard(ShardId(0), pool);
  (void)shard.set_job(job.view(), std::move(begin));
  const auto say = [&](auto body) {
    return shard.handle(
        kPeer, DataMessage{JobId(7), WorkerId(0), job.incarnation(WorkerId(0)), std::move(body)},
        TimePoint());
  };
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(job.hash());
  (void)say(hello);
  pb::OpenTables open;
  *open.add_tables() = to_wire(table);
  const auto answers = say(open);
  const auto& reply = std::get<pb::OpenTablesReply>(answers.at(0).message.body);
  CHECK_FALSE(reply.accepted());
  CHECK(reply.reason() == "shard 0 was given nothing that was saved of table \"table0\" slice 0");
}

}  // namespace taut::server
