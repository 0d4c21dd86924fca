#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/unit/server/shard/talk.hpp"

using Catch::Matchers::Contains;

namespace taut::server {
namespace {

using test::JobMaker;
using test::kPeer;
using test::Talk;

}  // namespace

TEST_CASE("tables that differ from those of the job's text are refused, whoever comes first",
          "[shard]") {
  JobMaker maker(1);
  pb::Job& definition = *maker.state.mutable_definition();
  definition.set_external_members(true);
  pb::JobTable& named = *definition.add_tables();
  named.set_name("w");
  named.add_shape(4);
  TableSpec table;
  table.name = "w";
  table.shape = {4};
  table.filler = {math::Filler::Kind::kConstant, 0, 0};
  Talk talk(maker, {table});
  REQUIRE(talk.hello().accepted());
  TableSpec other = table;
  other.shape = {2, 2};
  const pb::OpenTablesReply refused = talk.open(kPeer, std::vector<TableSpec>{other});
  CHECK_FALSE(refused.accepted());
  CHECK(refused.reason() == "table \"w\" has shape 4 in the job's text, but this member's has 2x2");
  CHECK(talk.open().accepted());
  CHECK_FALSE(talk.open(kPeer, std::vector<TableSpec>{other}).accepted());
}

TEST_CASE("all workers open the same tables; the second opening changes nothing", "[shard]") {
  Talk talk(JobMaker(2));
  talk.start(PeerId(1));
  CHECK(talk.ask(0, Talk::push(0, 0), PeerId(1)).kind == pb::DataItem::ACK);
  talk.start(PeerId(2));
  CHECK(talk.ask(0, Talk::push(0, 0), PeerId(1)).done == Clock(1));
}

TEST_CASE("one worker lists the tables, and the others wait for it", "[shard]") {
  Talk talk(JobMaker(2));
  const PeerId second(2);
  const PeerId third(3);
  for (const PeerId peer : {kPeer, second, third}) REQUIRE(talk.hello(peer).accepted());

  const auto requested = Talk::only<pb::OpenTablesReply>(talk.open_by_hash(kPeer), kPeer);
  CHECK(requested.name_tables());
  CHECK_FALSE(requested.accepted());
  CHECK(talk.open_by_hash(second).empty());

  pb::OpenTables listed;
  for (const TableSpec& table : talk.tables) *listed.add_tables() = to_wire(table);
  const auto answers = talk.send_opening(kPeer, listed);
  REQUIRE(answers.size() == 2);
  CHECK(answers[0].to == kPeer);
  CHECK(answers[1].to == second);
  for (const Outgoing& one : answers) {
    CHECK(std::get<pb::OpenTablesReply>(one.message.body).accepted());
  }
  CHECK(Talk::only<pb::OpenTablesReply>(talk.open_by_hash(third), third).accepted());
}

TEST_CASE("a worker that waited for the list in vain is asked for it", "[shard]") {
  Talk talk(JobMaker(2));
  const PeerId second(2);
  for (const PeerId peer : {kPeer, second}) REQUIRE(talk.hello(peer).accepted());
  CHECK(Talk::only<pb::OpenTablesReply>(talk.open_by_hash(kPeer), kPeer).name_tables());
  CHECK(talk.open_by_hash(second).empty());
  CHECK(Talk::only<pb::OpenTablesReply>(talk.open_by_hash(second), second).name_tables());
}

TEST_CASE("tables of another hash than the open ones have to be listed", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  pb::OpenTables requested;
  requested.set_tables_hash(std::string(64, 'f'));
  const pb::OpenTablesReply answer = talk.open(kPeer, requested);
  CHECK(answer.name_tables());
  CHECK_FALSE(answer.accepted());
  requested.set_tables_hash(std::string(65, 'f'));
  CHECK_THAT(talk.open(kPeer, requested).reason(), Contains("tables_hash has 65 bytes"));
}

TEST_CASE("opening other tables is refused with both sides' values", "[shard]") {
  Talk talk(JobMaker(2));
  talk.start();
  const auto refusal = [&](const std::vector<TableSpec>& named) {
    const auto reply = talk.open(kPeer, named);
    CHECK_FALSE(reply.accepted());
    return reply.reason();
  };
  CHECK_THAT(refusal({talk.tables[0], test::make_table(1, {2})}),
             Contains("1 table") && Contains("2"));
  CHECK_THAT(refusal({test::make_table(0, {5})}), Contains("4 elements") && Contains("5 elements"));
  TableSpec renamed = talk.tables[0];
  renamed.name = "weights";
  CHECK_THAT(refusal({renamed}), Contains("table0") && Contains("weights"));
  TableSpec faster = talk.tables[0];
  faster.lr_mult = 2.5F;
  CHECK_THAT(refusal({faster}), Contains("2.5"));
  TableSpec reshaped = talk.tables[0];
  reshaped.shape = {2, 2};
  CHECK_THAT(refusal({reshaped}), Contains("2x2") || Contains("2, 2"));
  TableSpec frozen = talk.tables[0];
  frozen.kind = TableKind::kFrozen;
  CHECK_THAT(refusal({frozen}), Contains("frozen") || Contains("FROZEN"));
  TableSpec filled = talk.tables[0];
  filled.filler = {math::Filler::Kind::kConstant, 0.75F, 0};
  CHECK_THAT(refusal({filled}), Contains("0.75"));
}

TEST_CASE("tables that cannot work are refused, and others can be opened afterwards", "[shard]") {
  Talk talk(JobMaker(1));
  REQUIRE(talk.hello().accepted());
  CHECK_FALSE(talk.open(kPeer, pb::OpenTables()).accepted());
  pb::OpenTables requested;
  *requested.add_tables() = to_wire(talk.tables[0]);
  const auto refused = [&](const auto& change) {
    pb::OpenTables broken = requested;
    change(*broken.mutable_tables(0));
    const auto reply = talk.open(kPeer, broken);
    CHECK_FALSE(reply.reason().empty());
    return !reply.accepted();
  };
  CHECK(refused([](pb::TableSpec& table) { table.set_table(3); }));
  CHECK(refused([](pb::TableSpec& table) { table.set_shape(0, 0); }));
  CHECK(refused([](pb::TableSpec& table) { table.set_shape(0, -4); }));
  CHECK(refused([](pb::TableSpec& table) {
    table.set_shape(0, std::numeric_limits<std::int64_t>::max());
    table.add_shape(std::numeric_limits<std::int64_t>::max());
  }));
  CHECK(refused([](pb::TableSpec& table) { table.mutable_filler()->set_type("xavier"); }));
  CHECK(refused([](pb::TableSpec& table) { table.set_kind(static_cast<pb::TableSpec::Kind>(8)); }));
  CHECK(talk.open().accepted());
}

TEST_CASE("only a member may name a job's tables", "[shard]") {
  Talk talk(JobMaker(2));
  REQUIRE(talk.hello().accepted());
  pb::OpenTables requested;
  *requested.add_tables() = to_wire(talk.tables[0]);
  DataMessage message = talk.envelope(2);
  message.body = requested;
  CHECK(talk.shard.handle(kPeer, message, TimePoint()).empty());
  message = talk.envelope(1);
  message.incarnation = Incarnation(999);
  message.body = requested;
  CHECK(talk.shard.handle(kPeer, message, TimePoint()).empty());
  CHECK(talk.shard.take_opened().empty());
  // Any sender may ask whether its tables are the open ones.
  CHECK(talk.open().accepted());
  message = talk.envelope(2);
  message.body = requested;
  CHECK(Talk::only<pb::OpenTablesReply>(talk.shard.handle(kPeer, message, TimePoint()), kPeer)
            .accepted());
}

TEST_CASE("items before the tables are open are answered with NOT_OPEN", "[shard]") {
  Talk talk(JobMaker(1));
  REQUIRE(talk.hello().accepted());
  CHECK(talk.ask(0, Talk::push(0, 0)).refusal == pb::DataItem::NOT_OPEN);
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 0)).refusal == pb::DataItem::NOT_OPEN);
}

}  // namespace taut::server
