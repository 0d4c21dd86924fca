#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/server/shard/talk.hpp"

using Catch::Matchers::Contains;

namespace taut::server {
namespace {

using test::JobMaker;
using test::kPeer;
using test::Talk;

}  // namespace

TEST_CASE(
    "tables beyond the server's memory are refused with their bytes, and nothing is allocated",
    "[shard]") {
  Talk talk(JobMaker(1));
  const auto memory = std::make_shared<TableMemory>(Bytes(1000 + kSliceBytes));
  talk.shard.limit_memory(memory);
  REQUIRE(talk.hello().accepted());
  std::vector<TableSpec> tables = talk.tables;
  tables[0].shape = {1LL << 20, 1LL << 20};  // 4 TiB
  const auto refused = talk.open(kPeer, tables);
  CHECK_FALSE(refused.accepted());
  CHECK_THAT(refused.reason(), Contains(tables[0].name) && Contains("4415226384384 bytes") &&
                                   Contains("memory_limit") && Contains("5096"));
  CHECK(memory->taken() == Bytes(0));
  // What fits may be opened afterwards, and is given back with the job.
  CHECK(talk.open().accepted());
  CHECK(memory->taken() > Bytes(0));
  talk.job.state.set_finished(true);
  talk.change();
  CHECK(memory->taken() == Bytes(0));
}

TEST_CASE("many small tables are limited in number and count with what they take", "[shard]") {
  Talk talk(JobMaker(1));
  const auto memory = std::make_shared<TableMemory>(Bytes(1 << 20));
  talk.shard.limit_memory(memory);
  REQUIRE(talk.hello().accepted());
  std::vector<TableSpec> many;
  for (std::uint32_t i = 0; i < 1000; ++i) many.push_back(test::make_table(i, {1}));
  CHECK_THAT(talk.open(kPeer, many).reason(), Contains("memory_limit"));
  CHECK(memory->taken() == Bytes(0));
  for (std::uint32_t i = 1000; i < 65537; ++i) many.push_back(test::make_table(i, {1}));
  CHECK_THAT(talk.open(kPeer, many).reason(), Contains("tables has 65537 elements"));
  many.resize(100);
  CHECK(talk.open(kPeer, many).accepted());
  CHECK(memory->taken() == Bytes(100 * (sizeof(float) + kSliceBytes)));
}

TEST_CASE("the update rule's state counts as the tables' memory", "[shard]") {
  const auto taken_with = [](float momentum) {
    JobMaker job(1);
    job.solver().set_momentum(momentum);
    Talk talk(std::move(job));
    const auto memory = std::make_shared<TableMemory>(Bytes(1 << 20));
    talk.shard.limit_memory(memory);
    talk.start();
    return memory->taken().value() - kSliceBytes;
  };
  CHECK(taken_with(0) > 0);
  CHECK(taken_with(0.9F) == 2 * taken_with(0));
}

TEST_CASE("the reads that delay compensation may keep count too", "[shard]") {
  JobMaker job(3, Slack(2));
  job.state.mutable_definition()->mutable_consistency()->mutable_delay_compensation();
  Talk talk(std::move(job));
  const auto memory = std::make_shared<TableMemory>(Bytes(1 << 20));
  talk.shard.limit_memory(memory);
  talk.start();
  CHECK(memory->taken() == Bytes(16 + 3 * 16 + kSliceBytes));
  const auto opened = talk.shard.take_opened();
  REQUIRE(opened.size() == 1);
  CHECK(opened[0].job == JobId(7));
  CHECK(opened[0].bytes == 64 + kSliceBytes);
  CHECK(opened[0].compensation == 48);
  CHECK(talk.shard.take_opened().empty());
}

}  // namespace taut::server
