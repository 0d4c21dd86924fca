#include "server/shard.hpp"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <random>
#include <vector>

#include "proto/wire_version.hpp"
#include "tests/unit/server/job_maker.hpp"

using Catch::Matchers::Contains;

namespace taut::server {
namespace {

using test::JobMaker;
using test::same_bits;

constexpr PeerId kPeer{1};

/// A shard with one job, and peers that speak to it.
struct Talk {
  explicit Talk(JobMaker maker, std::vector<TableSpec> list = {test::make_table(0, {4})},
                ShardId id = ShardId(0))
      : job(std::move(maker)), tables(std::move(list)), shard(id, pool) {
    change();
  }

  std::vector<Outgoing> change() { return shard.set_job(job.view()); }

  DataMessage envelope(std::uint32_t worker) {
    const bool member = worker < static_cast<std::uint32_t>(job.state.members_size());
    return {JobId(7),
            WorkerId(worker),
            member ? job.incarnation(WorkerId(worker)) : Incarnation(999),
            {}};
  }
  pb::DataHelloReply hello(PeerId from = kPeer) {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_build("a test");
    hello.set_role("worker");
    hello.set_job_hash(job.hash());
    return say_hello(from, hello);
  }
  pb::DataHelloReply say_hello(PeerId from, const pb::DataHello& hello) {
    DataMessage message = envelope(0);
    message.body = hello;
    return only<pb::DataHelloReply>(shard.handle(from, message, TimePoint()), from);
  }
  pb::OpenTablesReply open(PeerId from = kPeer) { return open(from, tables); }
  pb::OpenTablesReply open(PeerId from, const std::vector<TableSpec>& named) {
    pb::OpenTables requested;
    for (const TableSpec& table : named) *requested.add_tables() = to_wire(table);
    return open(from, requested);
  }
  pb::OpenTablesReply open(PeerId from, const pb::OpenTables& requested) {
    return only<pb::OpenTablesReply>(send_opening(from, requested), from);
  }
  std::vector<Outgoing> send_opening(PeerId from, const pb::OpenTables& requested) {
    DataMessage message = envelope(0);
    message.body = requested;
    return shard.handle(from, message, TimePoint());
  }
  std::vector<Outgoing> open_by_hash(PeerId from) {
    pb::OpenTables requested;
    requested.set_tables_hash(tables_hash(tables));
    return send_opening(from, requested);
  }
  void start(PeerId from = kPeer) {
    REQUIRE(hello(from).accepted());
    REQUIRE(open(from).accepted());
  }

  std::vector<Outgoing> send(PeerId from, std::uint32_t worker, std::vector<DataItem> items) {
    DataMessage message = envelope(worker);
    message.body = DataItems{std::move(items)};
    return shard.handle(from, std::move(message), TimePoint());
  }
  /// The one answer to one item.
  DataItem ask(std::uint32_t worker, const DataItem& item, PeerId from = kPeer) {
    const auto out = send(from, worker, {item});
    const auto batch = only<DataItems>(out, from);
    REQUIRE(batch.items.size() == 1);
    return batch.items[0];
  }
  static DataItem item(DataItem::Kind kind, std::int64_t clock, std::uint32_t table = 0,
                       std::uint32_t slice = 0) {
    DataItem item;
    item.kind = kind;
    item.table = TableId(table);
    item.slice = SliceId(slice);
    item.clock = Clock(clock);
    return item;
  }
  static DataItem push(std::uint32_t worker, std::int64_t clock,
                       DataItem::Kind kind = pb::DataItem::PUSH) {
    DataItem made = item(kind, clock);
    made.count = 4;
    made.payload = test::frame_of(test::gradient_of(worker, clock, 4));
    return made;
  }
  std::vector<float> values() {
    const DataItem answer = ask(0, item(pb::DataItem::SNAPSHOT, 0));
    REQUIRE(answer.kind == pb::DataItem::SNAPSHOT_VALUE);
    return test::floats_of(answer.payload);
  }

  template <class Body>
  static Body only(const std::vector<Outgoing>& out, PeerId to) {
    REQUIRE(out.size() == 1);
    REQUIRE(out[0].to == to);
    // What a shard says must survive the way through bytes.
    auto message = decode_data(encode(out[0].message));
    REQUIRE(message.has_value());
    REQUIRE(std::holds_alternative<Body>(message.value().body));
    return std::get<Body>(message.value().body);
  }

  JobMaker job;
  std::vector<TableSpec> tables;
  BufferPool pool;
  Shard shard;
};

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

TEST_CASE("updates that are refused when a lost member's clocks are applied are reported at once",
          "[shard]") {
  JobMaker maker(2);
  maker.state.mutable_definition()->set_on_bad_update(pb::Job::REFUSE);
  Talk talk(maker);
  talk.start();
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    DataItem bad = Talk::push(0, clock);
    bad.payload = test::frame_of(std::vector<float>(4, std::numeric_limits<float>::quiet_NaN()));
    CHECK(talk.ask(0, bad).kind == pb::DataItem::ACK);
  }
  CHECK(talk.shard.report(JobId(7)).bad_updates.empty());
  static_cast<void>(talk.shard.take_changed());
  // All three clocks waited for the other one.
  talk.job.leave(WorkerId(1), Clock(0));
  talk.change();
  CHECK(talk.shard.report(JobId(7)).bad_updates ==
        std::map<WorkerId, std::uint64_t>{{WorkerId(0), 3}});
  CHECK(talk.shard.take_changed() == std::vector<JobId>{JobId(7)});
}

TEST_CASE("a hello of another wire version is refused with both sides' versions and builds",
          "[shard]") {
  Talk talk(JobMaker(1));
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion + 1);
  hello.set_build("another build");
  hello.set_job_hash(talk.job.hash());
  const auto reply = talk.say_hello(kPeer, hello);
  CHECK_FALSE(reply.accepted());
  CHECK_FALSE(reply.greet_again());
  CHECK_THAT(reply.reason(), Contains(fmt::format("wire version {}", kWireVersion)) &&
                                 Contains(fmt::format("wire version {}", kWireVersion + 1)) &&
                                 Contains(build_name()) && Contains("another build"));
}

TEST_CASE("a hello of another job's definition is refused with both hashes", "[shard]") {
  Talk talk(JobMaker(1));
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(std::string(64, 'e'));
  const auto reply = talk.say_hello(kPeer, hello);
  CHECK_FALSE(reply.accepted());
  CHECK(reply.job_hash() == talk.job.hash());
  CHECK_THAT(reply.reason(), Contains(talk.job.hash().substr(0, 12)) && Contains("eeeeeeeeeeee"));
}

TEST_CASE("the refusal of a hello whose job hash is no text can be read", "[shard]") {
  Talk talk(JobMaker(1));
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash("\xff\xfe\xc0 no hash at all");
  CHECK_FALSE(talk.say_hello(kPeer, hello).accepted());
}

TEST_CASE("a hello for a job that the shard does not know names the job", "[shard]") {
  Talk talk(JobMaker(1));
  talk.job.state.set_finished(true);
  talk.change();
  const auto reply = talk.hello();
  CHECK_FALSE(reply.accepted());
  CHECK_THAT(reply.reason(), Contains("job 7"));
}

TEST_CASE("every new connection must send a hello before anything is served", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start(PeerId(1));
  const auto out = talk.send(PeerId(2), 0, {Talk::push(0, 0)});
  const auto reply = Talk::only<pb::DataHelloReply>(out, PeerId(2));
  CHECK_FALSE(reply.accepted());
  CHECK(reply.greet_again());
  DataMessage opening = talk.envelope(0);
  opening.body = pb::OpenTables();
  CHECK(
      Talk::only<pb::DataHelloReply>(talk.shard.handle(PeerId(2), opening, TimePoint()), PeerId(2))
          .greet_again());
  // Nothing of it was applied.
  CHECK(talk.ask(0, Talk::push(0, 0), PeerId(1)).kind == pb::DataItem::ACK);
  REQUIRE(talk.hello(PeerId(2)).accepted());
  CHECK(talk.ask(0, Talk::push(0, 1), PeerId(2)).done == Clock(2));
}

TEST_CASE("a refused hello opens nothing", "[shard]") {
  Talk talk(JobMaker(1));
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash("other");
  CHECK_FALSE(talk.say_hello(kPeer, hello).accepted());
  const auto out = talk.send(kPeer, 0, {Talk::push(0, 0)});
  CHECK(Talk::only<pb::DataHelloReply>(out, kPeer).greet_again());
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

TEST_CASE("an update that weighs what no share of a batch does is refused", "[shard]") {
  for (const bool balances : {false, true}) {
    JobMaker maker(2);
    maker.state.mutable_definition()->set_balance(balances);
    maker.state.mutable_definition()->set_workers(2);
    Talk talk(std::move(maker));
    talk.start();
    for (const float weight : {1.5F, 2.5F, 1e38F, 1e-30F}) {
      DataItem update = Talk::push(0, 0);
      update.weight = weight;
      const DataItem answer = talk.ask(0, update);
      const bool is_share = balances && weight == 1.5F;
      INFO(balances << ", " << weight);
      CHECK(answer.kind == (is_share ? pb::DataItem::ACK : pb::DataItem::REFUSED));
      if (!is_share) CHECK(answer.refusal == pb::DataItem::BAD_RANGE);
    }
    CHECK(talk.ask(1, Talk::push(1, 0)).kind == pb::DataItem::ACK);
  }
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

TEST_CASE("items before the tables are open are answered with NOT_OPEN", "[shard]") {
  Talk talk(JobMaker(1));
  REQUIRE(talk.hello().accepted());
  CHECK(talk.ask(0, Talk::push(0, 0)).refusal == pb::DataItem::NOT_OPEN);
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 0)).refusal == pb::DataItem::NOT_OPEN);
}

TEST_CASE("a push that was accepted before is acknowledged again and dropped", "[shard]") {
  Talk talk(JobMaker(1, Slack(1)));
  talk.start();
  CHECK(talk.ask(0, Talk::push(0, 0)).kind == pb::DataItem::ACK);
  const auto once = talk.values();
  const DataItem again = talk.ask(0, Talk::push(0, 0));
  CHECK(again.kind == pb::DataItem::ACK);
  CHECK(again.clock == Clock(0));
  CHECK(again.done == Clock(1));
  CHECK(same_bits(talk.values(), once));
}

TEST_CASE("a push that is ahead is refused with the clock that is expected", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  talk.ask(0, Talk::push(0, 0));
  const DataItem refused = talk.ask(0, Talk::push(0, 3));
  CHECK(refused.refusal == pb::DataItem::OUT_OF_ORDER);
  CHECK(refused.done == Clock(1));
  CHECK(refused.clock == Clock(3));
}

TEST_CASE("what a member pushes ahead of the others without reading is held up to a limit",
          "[shard]") {
  Talk talk(JobMaker(2));
  talk.start();
  std::int64_t clock = 0;
  while (clock < 100 && talk.ask(0, Talk::push(0, clock)).kind == pb::DataItem::ACK) ++clock;
  CHECK(clock == 4);  // two clocks of each member, under BSP
  CHECK(talk.ask(0, Talk::push(0, clock)).refusal == pb::DataItem::HELD);
  CHECK(talk.ask(0, Talk::push(0, clock - 1)).kind == pb::DataItem::ACK);  // it was accepted before
  CHECK(talk.shard.queues().held_updates == 4);
  // The others are never kept back, and then it continues.
  CHECK(talk.ask(1, Talk::push(1, 0)).kind == pb::DataItem::ACK);
  CHECK(talk.ask(0, Talk::push(0, clock)).kind == pb::DataItem::ACK);
}

TEST_CASE("what waits in a buffer is no sign of a member that pushes without reading", "[shard]") {
  JobMaker maker(2, Slack(1));
  pb::Consistency& consistency = *maker.state.mutable_definition()->mutable_consistency();
  consistency.set_mode(pb::Consistency::SSP);
  pb::PeriodicAveraging& averaging = *consistency.mutable_periodic_averaging();
  averaging.set_interval(1);
  averaging.mutable_outer()->set_type("SGD");
  averaging.mutable_outer()->set_lr(1);
  averaging.mutable_outer()->set_buffer(100);
  Talk talk(maker);
  talk.start();
  // Each reads before it pushes. The first is a clock ahead, as far as its slack goes.
  for (std::int64_t clock = 0; clock < 20; ++clock) {
    CHECK(talk.ask(0, Talk::push(0, clock)).kind == pb::DataItem::ACK);
    if (clock > 0) CHECK(talk.ask(1, Talk::push(1, clock - 1)).kind == pb::DataItem::ACK);
    CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, clock + 1)).kind == pb::DataItem::VALUE);
  }
  CHECK(talk.shard.queues().held_updates == 39);
}

TEST_CASE("a member whose next push is at a later clock is not taken for one that is ahead",
          "[shard]") {
  JobMaker maker(2);
  pb::Consistency& consistency = *maker.state.mutable_definition()->mutable_consistency();
  consistency.set_mode(pb::Consistency::BSP);
  consistency.mutable_periodic_averaging()->set_interval(3);
  Talk talk(maker);
  talk.start();
  for (const std::int64_t clock : {2, 5, 8, 11}) {
    CHECK(talk.ask(0, Talk::push(0, clock)).kind == pb::DataItem::ACK);
  }
  CHECK(talk.ask(0, Talk::push(0, 14)).refusal == pb::DataItem::HELD);
  CHECK(talk.ask(1, Talk::push(1, 2)).kind == pb::DataItem::ACK);
}

TEST_CASE("a push and the read that follows it are answered as one", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  const DataItem answer = talk.ask(0, Talk::push(0, 0, pb::DataItem::PUSH_READ));
  CHECK(answer.kind == pb::DataItem::VALUE);
  CHECK(answer.clock == Clock(1));
  CHECK(answer.version == Clock(1));
  CHECK(answer.done == Clock(1));
  CHECK(answer.count == 4);
  CHECK(same_bits(test::floats_of(answer.payload), talk.values()));
  // Once more, as after a lost answer.
  const DataItem repeated = talk.ask(0, Talk::push(0, 0, pb::DataItem::PUSH_READ));
  CHECK(repeated.kind == pb::DataItem::VALUE);
  CHECK(same_bits(test::floats_of(repeated.payload), test::floats_of(answer.payload)));
}

TEST_CASE("a read that must wait is answered to its own peer once the others have pushed",
          "[shard]") {
  Talk talk(JobMaker(2));
  talk.start(PeerId(1));
  talk.start(PeerId(2));
  const DataItem ack = talk.ask(0, Talk::push(0, 0, pb::DataItem::PUSH_READ), PeerId(1));
  CHECK(ack.kind == pb::DataItem::ACK);
  CHECK(ack.done == Clock(1));
  const auto out = talk.send(PeerId(2), 1, {Talk::push(1, 0, pb::DataItem::PUSH_READ)});
  REQUIRE(out.size() == 2);
  for (const Outgoing& one : out) {
    const auto& batch = std::get<DataItems>(one.message.body);
    REQUIRE(batch.items.size() == 1);
    CHECK(batch.items[0].kind == pb::DataItem::VALUE);
    CHECK(batch.items[0].version == Clock(1));
  }
  CHECK(out[0].to != out[1].to);
}

TEST_CASE("waiting reads and updates are counted until they are answered, applied or dropped",
          "[shard]") {
  Talk talk(JobMaker(2));
  talk.start();
  const ShardQueues& queues = talk.shard.queues();
  CHECK(queues.parked_reads == 0);
  CHECK(talk.ask(0, Talk::push(0, 0, pb::DataItem::PUSH_READ)).kind == pb::DataItem::ACK);
  CHECK(queues.parked_reads == 1);
  CHECK(queues.held_updates == 1);
  CHECK(queues.held_bytes == 16);
  // A copy of it waits no second time.
  talk.ask(0, Talk::push(0, 0, pb::DataItem::PUSH_READ));
  CHECK(queues.parked_reads == 1);
  CHECK(queues.held_updates == 1);
  // The update of the second worker completes the clock.
  talk.send(kPeer, 1, {Talk::push(1, 0)});
  CHECK(queues.parked_reads == 0);
  CHECK(queues.held_updates == 0);
  CHECK(queues.held_bytes == 0);
  // What a worker left behind that was lost goes with it, and everything with the job.
  talk.ask(1, Talk::push(1, 1, pb::DataItem::PUSH_READ));
  CHECK(queues.held_updates == 1);
  talk.job.leave(WorkerId(1), Clock(1));
  talk.change();
  CHECK(queues.parked_reads == 0);
  CHECK(queues.held_updates == 0);
  talk.job.join(Clock(5));
  talk.change();
  for (std::int64_t clock = 1; clock < 6; ++clock) talk.ask(0, Talk::push(0, clock));
  CHECK(queues.held_updates == 1);
  talk.job.state.set_finished(true);
  talk.change();
  CHECK(queues.held_updates == 0);
  CHECK(queues.held_bytes == 0);
}

TEST_CASE("rejected updates that will be resent are counted", "[shard]") {
  Talk talk(JobMaker(1, Slack(2)));
  talk.start();
  CHECK(talk.ask(0, Talk::push(0, 3)).refusal == pb::DataItem::OUT_OF_ORDER);
  CHECK(talk.shard.queues().postponed_updates == 1);
  talk.job.state.set_hold_from(0);
  talk.change();
  CHECK(talk.ask(0, Talk::push(0, 0)).refusal == pb::DataItem::HELD);
  CHECK(talk.shard.queues().postponed_updates == 2);
  CHECK(talk.shard.queues().held_updates == 0);
}

TEST_CASE("a stale incarnation is refused with these words, and changes nothing", "[shard]") {
  Talk talk(JobMaker(2, Slack(1)));
  talk.start();
  talk.job.leave(WorkerId(1), Clock(0));
  talk.change();
  const auto before = talk.values();
  for (const auto kind : {pb::DataItem::PUSH, pb::DataItem::PUSH_READ}) {
    const DataItem refused = talk.ask(1, Talk::push(1, 0, kind));
    CHECK(refused.refusal == pb::DataItem::STALE_INCARNATION);
    CHECK_THAT(refused.reason, Contains("stale incarnation"));
  }
  CHECK(talk.ask(1, Talk::item(pb::DataItem::READ, 0)).refusal == pb::DataItem::STALE_INCARNATION);
  // Another life of a member is as stale.
  talk.job.member(WorkerId(0)).set_incarnation(55);
  CHECK(talk.ask(0, Talk::push(0, 0)).refusal == pb::DataItem::STALE_INCARNATION);
  CHECK(same_bits(talk.values(), before));
}

TEST_CASE("messages of survivors are never refused because an epoch changed meanwhile", "[shard]") {
  Talk talk(JobMaker(2));
  talk.start();
  for (std::int64_t clock = 0; clock < 4; ++clock) {
    CHECK(talk.ask(0, Talk::push(0, clock)).kind == pb::DataItem::ACK);
    talk.job.state.set_epoch(static_cast<std::uint64_t>(clock) + 1);
    if (clock == 0) talk.job.join(Clock(9));
    if (clock == 1) talk.job.leave(WorkerId(1), Clock(0));
    talk.change();
    // A message from before the change, and a copy of it.
    CHECK(talk.ask(0, Talk::push(0, clock)).kind == pb::DataItem::ACK);
  }
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 4)).kind == pb::DataItem::VALUE);
}

TEST_CASE("while an epoch is prepared, pushes from its clock on are HELD and reads continue",
          "[shard]") {
  Talk talk(JobMaker(1, Slack(2)));
  talk.start();
  talk.job.state.set_hold_from(1);
  talk.change();
  CHECK(talk.ask(0, Talk::push(0, 0)).kind == pb::DataItem::ACK);
  const auto before = talk.values();
  const DataItem held = talk.ask(0, Talk::push(0, 1));
  CHECK(held.refusal == pb::DataItem::HELD);
  CHECK(held.clock == Clock(1));
  CHECK(talk.ask(0, Talk::push(0, 1, pb::DataItem::PUSH_READ)).refusal == pb::DataItem::HELD);
  CHECK(same_bits(talk.values(), before));
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 1)).kind == pb::DataItem::VALUE);
  talk.job.state.set_hold_from(Clock::never().value());
  talk.change();
  CHECK(talk.ask(0, Talk::push(0, 1)).kind == pb::DataItem::ACK);
}

TEST_CASE("a copy of an accepted push is acknowledged even while its clock is held", "[shard]") {
  Talk talk(JobMaker(1, Slack(2)));
  talk.start();
  for (std::int64_t clock = 0; clock < 3; ++clock) talk.ask(0, Talk::push(0, clock));
  talk.job.state.set_hold_from(1);
  talk.change();
  const DataItem again = talk.ask(0, Talk::push(0, 2));
  CHECK(again.kind == pb::DataItem::ACK);
  CHECK(again.done == Clock(3));
}

TEST_CASE("a reader that is no member may only take snapshots", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  CHECK(talk.ask(5, Talk::push(5, 0)).refusal == pb::DataItem::NO_MEMBER);
  CHECK(talk.ask(5, Talk::item(pb::DataItem::READ, 0)).refusal == pb::DataItem::NO_MEMBER);
  const DataItem snapshot = talk.ask(5, Talk::item(pb::DataItem::SNAPSHOT, 0));
  CHECK(snapshot.kind == pb::DataItem::SNAPSHOT_VALUE);
  CHECK(snapshot.version == Clock(0));
}

TEST_CASE("wrong jobs, tables, slices and ranges are each answered", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  const auto refusal = [&](const DataItem& item) { return talk.ask(0, item).refusal; };
  CHECK(refusal(Talk::item(pb::DataItem::READ, 0, 1)) == pb::DataItem::UNKNOWN_TABLE);
  CHECK(refusal(Talk::item(pb::DataItem::READ, 0, 0, 1)) == pb::DataItem::UNKNOWN_TABLE);
  CHECK(refusal(Talk::item(pb::DataItem::READ, 0, 0xffffffffU, 0xffffffffU)) ==
        pb::DataItem::UNKNOWN_TABLE);
  CHECK(refusal(Talk::item(pb::DataItem::SNAPSHOT, 0, 7)) == pb::DataItem::UNKNOWN_TABLE);
  for (const auto kind : {pb::DataItem::ACK, pb::DataItem::VALUE, pb::DataItem::REFUSED,
                          pb::DataItem::SNAPSHOT_VALUE}) {
    DataItem answer = Talk::item(kind, 0);
    CHECK(refusal(answer) == pb::DataItem::BAD_RANGE);
  }
  DataItem part = Talk::push(0, 0);
  part.count = 3;
  part.payload = part.payload.part(0, 12);
  CHECK(refusal(part) == pb::DataItem::BAD_RANGE);
  DataItem moved = Talk::push(0, 0);
  moved.offset = 1;
  CHECK(refusal(moved) == pb::DataItem::BAD_RANGE);
  DataItem none = Talk::push(0, 0);
  none.count = 0;
  none.payload = Frame();
  CHECK(refusal(none) == pb::DataItem::BAD_RANGE);

  DataMessage other = talk.envelope(0);
  other.job = JobId(8);
  other.body = DataItems{{Talk::item(pb::DataItem::READ, 0)}};
  const auto batch = Talk::only<DataItems>(talk.shard.handle(kPeer, other, TimePoint()), kPeer);
  CHECK(batch.items.at(0).refusal == pb::DataItem::UNKNOWN_JOB);
  // It still serves.
  CHECK(talk.ask(0, Talk::push(0, 0)).kind == pb::DataItem::ACK);
}

TEST_CASE("a slice of another shard is refused", "[shard]") {
  Talk talk(JobMaker(1, Slack(0), 2), {test::make_table(0, {4}), test::make_table(1, {4})});
  talk.start();
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 0, 0)).kind == pb::DataItem::VALUE);
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 0, 1)).refusal == pb::DataItem::UNKNOWN_TABLE);
}

TEST_CASE("each item of a peer is answered, whatever it is, and the shard continues", "[shard]") {
  const std::uint64_t seed = 5;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Talk talk(JobMaker(3, Slack(1)), {test::make_table(0, {4}), test::make_table(1, {2, 3})});
  talk.start();
  const auto pick = [&](std::initializer_list<std::uint64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  constexpr std::uint64_t kBig = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < 20000; ++i) {
    DataItem item;
    item.kind = static_cast<DataItem::Kind>(random() % 9);
    item.table = TableId(static_cast<std::uint32_t>(pick({0, 0, 1, 1, 2, kBig})));
    item.slice = SliceId(static_cast<std::uint32_t>(pick({0, 0, 0, 1, kBig})));
    item.offset = pick({0, 0, 0, 1, kBig});
    item.count = pick({4, 6, 0, 5, kBig});
    item.clock = Clock(static_cast<std::int64_t>(pick({0, 1, 2, 3, kBig / 2 - 1})));
    item.payload = test::frame_of(std::vector<float>(item.count <= 6 ? item.count : 0, 1.0F));
    talk.send(kPeer, static_cast<std::uint32_t>(pick({0, 0, 1, 2, 9})), {item});
  }
  CHECK(talk.ask(0, Talk::item(pb::DataItem::SNAPSHOT, 0)).kind == pb::DataItem::SNAPSHOT_VALUE);
}

TEST_CASE("an older view of a job is ignored", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  const auto old = talk.job.view();
  talk.job.state.set_hold_from(0);
  talk.change();
  static_cast<void>(talk.shard.set_job(old));
  CHECK(talk.ask(0, Talk::push(0, 0)).refusal == pb::DataItem::HELD);
}

TEST_CASE("word that another job is over does not disturb the one that runs", "[shard]") {
  Talk talk(JobMaker(1, Slack(0), 2), {test::make_table(0, {4}), test::make_table(1, {4})});
  talk.start();
  // In that other job this shard had another number.
  talk.shard.set_id(ShardId(1));
  JobMaker other(1);
  other.state.set_job(6);
  other.state.set_finished(true);
  static_cast<void>(talk.shard.set_job(other.view()));
  CHECK(talk.ask(0, Talk::push(0, 0)).kind == pb::DataItem::ACK);
}

TEST_CASE("a job that is over is forgotten, and may return", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  talk.ask(0, Talk::push(0, 0));
  const auto used = talk.pool.usage().used;
  CHECK(used > Bytes(0));
  talk.job.state.set_finished(true);
  talk.change();
  CHECK(talk.pool.usage().used == Bytes(0));
  CHECK(talk.ask(0, Talk::push(0, 1)).refusal == pb::DataItem::UNKNOWN_JOB);
  CHECK(talk.shard.report(JobId(7)).revision == 0);
}

TEST_CASE("a read that is too early is told whose update it waits for", "[shard]") {
  Talk talk(JobMaker(3));
  talk.start();
  for (std::int64_t clock = 0; clock < 2; ++clock) talk.ask(0, Talk::push(0, clock));
  talk.ask(2, Talk::push(2, 0));
  const DataItem parked = talk.ask(0, Talk::item(pb::DataItem::READ, 2));
  CHECK(parked.kind == pb::DataItem::PARKED);
  CHECK(parked.clock == Clock(2));
  CHECK(parked.waits_for == WorkerId(1));
  CHECK(parked.version == Clock(0));
  CHECK(parked.done == Clock(2));
  // Its own update comes first.
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 3)).waits_for == WorkerId(0));
  // One that was lost is waited for no more.
  talk.job.leave(WorkerId(1), Clock(0));
  talk.change();
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 2)).waits_for == WorkerId(2));
}

TEST_CASE("raised slack and a loss release parked reads as messages to their peers", "[shard]") {
  Talk talk(JobMaker(2, Slack(1)));
  talk.start();
  talk.ask(0, Talk::push(0, 0));
  CHECK(talk.ask(0, Talk::push(0, 1, pb::DataItem::PUSH_READ)).kind == pb::DataItem::ACK);
  talk.job.state.set_slack(2);
  auto batch = Talk::only<DataItems>(talk.change(), kPeer);
  REQUIRE(batch.items.size() == 1);
  CHECK(batch.items[0].kind == pb::DataItem::VALUE);
  CHECK(batch.items[0].clock == Clock(2));
  CHECK(talk.ask(0, Talk::push(0, 2, pb::DataItem::PUSH_READ)).kind == pb::DataItem::ACK);
  talk.job.leave(WorkerId(1), Clock(0));
  batch = Talk::only<DataItems>(talk.change(), kPeer);
  REQUIRE(batch.items.size() == 1);
  CHECK(batch.items[0].version == Clock(3));
}

TEST_CASE("a report names the lowest clock of the fenced and the highest of all", "[shard]") {
  Talk talk(JobMaker(3, Slack(5)), {test::make_table(0, {4}), test::make_table(1, {4})});
  talk.start();
  const auto push = [&](std::uint32_t worker, std::uint32_t table, std::int64_t clock) {
    DataItem item = Talk::push(worker, clock);
    item.table = TableId(table);
    REQUIRE(talk.ask(worker, item).kind == pb::DataItem::ACK);
  };
  push(0, 0, 0);
  push(0, 0, 1);
  push(1, 0, 0);
  push(1, 0, 1);
  push(1, 1, 0);
  talk.job.fence(WorkerId(1));
  talk.change();
  const ShardReport report = talk.shard.report(JobId(7));
  CHECK(report.revision == 2);
  CHECK(report.max_done == Clock(2));
  CHECK(report.fenced == std::map<WorkerId, Clock>{{WorkerId(1), Clock(1)}});
}

TEST_CASE("a shard without slices does not lower the cut of a lost worker", "[shard]") {
  // Two tables on four shards: shards 2 and 3 have none.
  Talk talk(JobMaker(2, Slack(0), 4), {test::make_table(0, {4}), test::make_table(1, {4})},
            ShardId(3));
  talk.start();
  talk.job.fence(WorkerId(1));
  talk.change();
  CHECK(talk.shard.report(JobId(7)).fenced.at(WorkerId(1)) == Clock::never());
}

TEST_CASE("a shard whose tables were never opened has seen no push of a lost worker", "[shard]") {
  Talk talk(JobMaker(2));
  talk.job.fence(WorkerId(1));
  talk.change();
  CHECK(talk.shard.report(JobId(7)).fenced.at(WorkerId(1)) == Clock(0));
}

TEST_CASE("many answers to one peer travel in messages of a limited size", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  const std::vector<DataItem> items(2500, Talk::item(pb::DataItem::SNAPSHOT, 0));
  const auto out = talk.send(kPeer, 0, items);
  std::size_t answered = 0;
  for (const Outgoing& one : out) {
    const auto& batch = std::get<DataItems>(one.message.body);
    CHECK(batch.items.size() <= DataItems::kMaxItems);
    answered += batch.items.size();
  }
  CHECK(answered == 2500);
}

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

TEST_CASE("however many readers greet, a worker need not greet again", "[shard]") {
  Talk talk(JobMaker(1));
  talk.start();
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(talk.job.hash());
  DataMessage message = talk.envelope(1);
  message.body = hello;
  for (std::uint64_t peer = 1000; peer < 1000 + 66'000; ++peer) {
    (void)talk.shard.handle(PeerId(peer), message, TimePoint());
  }
  CHECK(talk.ask(0, Talk::item(pb::DataItem::READ, 0)).kind == pb::DataItem::VALUE);
  // The newest reader is known, the first ones are not any more.
  CHECK(talk.ask(1, Talk::item(pb::DataItem::SNAPSHOT, 0), PeerId(66'999)).kind ==
        pb::DataItem::SNAPSHOT_VALUE);
  message.body = DataItems{{Talk::item(pb::DataItem::SNAPSHOT, 0)}};
  const auto out = talk.shard.handle(PeerId(1000), message, TimePoint());
  CHECK(Talk::only<pb::DataHelloReply>(out, PeerId(1000)).greet_again());
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
