#include <string>
#include <vector>

#include "server/replication/replay_gate.hpp"
#include "tests/unit/server/replication/backup_pair.hpp"

namespace taut::server {
namespace {

using Catch::Matchers::Contains;
using test::BackupPair;
using test::floats_of;
using test::item_of;
using test::JobMaker;
using test::kAnn;
using test::kBob;
using test::make_table;

}  // namespace

TEST_CASE("a gate opens when each member has been heard and has repeated what it sent",
          "[replication]") {
  JobMaker job(3);
  const Membership membership = job.view()->membership;
  ReplayGate gate(membership);
  SliceClock clock;
  clock.update(membership);
  gate.hear(kAnn, Clock(1));
  gate.hear(kBob, Clock(0));
  gate.pass(clock);
  CHECK_FALSE(gate.is_open());
  CHECK(gate.is_replay(kAnn, Clock(0)));
  CHECK_FALSE(gate.is_replay(kAnn, Clock(1)));
  CHECK(gate.highest_due() == Clock(1));

  SECTION("the last one is heard") {
    gate.hear(WorkerId(2), Clock(0));
    gate.pass(clock);
    CHECK_FALSE(gate.is_open());
    clock.accept(kAnn, Clock(0));
    gate.pass(clock);
    CHECK(gate.is_open());
  }
  SECTION("one that is lost is waited for until it is known where it leaves") {
    clock.accept(kAnn, Clock(0));
    job.fence(WorkerId(2));
    gate.update(job.view()->membership);
    gate.pass(clock);
    CHECK_FALSE(gate.is_open());
    job.leave(WorkerId(2), Clock(0));
    gate.update(job.view()->membership);
    CHECK(gate.is_open());
  }
  SECTION("one that has finished is not waited for") {
    clock.accept(kAnn, Clock(0));
    job.member(WorkerId(2)).set_finished(true);
    gate.update(job.view()->membership);
    gate.pass(clock);
    CHECK(gate.is_open());
  }
}

TEST_CASE("a shard that moves with a checkpoint ahead is in it", "[replication]") {
  // A host without any other shard of the job opens the tables when it takes over, and reported its
  // part as written, without a slice, before it had any.
  BackupPair pair(1);
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  pair.replicate();
  pb::CheckpointOrder& order = *pair.job.state.mutable_checkpoint();
  order.set_number(3);
  order.set_clock(1);
  pair.take_over();
  CHECK(pair.second.take_captures().empty());
  REQUIRE(pair.greet(pair.second, kAnn, 2).accepted());
  pair.open(pair.second, kAnn, {0});
  pair.push(pair.second, kAnn, 0);
  const std::vector<ShardCapture> captures = pair.second.take_captures();
  REQUIRE(captures.size() == 1);
  CHECK(captures[0].slices.size() == 1);
}

TEST_CASE("a server that takes a shard over answers no read before what was sent is repeated",
          "[replication]") {
  BackupPair pair(2);
  for (const WorkerId worker : {kAnn, kBob}) {
    REQUIRE(pair.greet(pair.first, worker, 1).accepted());
    pair.open(pair.first, worker);
  }
  for (const WorkerId worker : {kAnn, kBob}) (void)pair.push(pair.first, worker, 0);
  pair.replicate();
  // The backup does not have this clock.
  for (const WorkerId worker : {kAnn, kBob}) (void)pair.push(pair.first, worker, 1);
  const std::vector<float> seen = floats_of(item_of(pair.read(pair.first, kAnn, 2)).payload);

  CHECK(pair.greet(pair.second, kAnn, 2).later());  // it does not know of it yet
  pair.take_over();
  CHECK(pair.second.report(JobId(7)).settling);
  CHECK(pair.greet(pair.second, kAnn, 1).later());  // an earlier term's
  REQUIRE(pair.greet(pair.second, kAnn, 2).accepted());
  pair.open(pair.second, kAnn, {2});
  CHECK(item_of(pair.read(pair.second, kAnn, 2)).kind == pb::DataItem::PARKED);
  (void)pair.push(pair.second, kAnn, 1);
  DataItem snapshot;
  snapshot.kind = pb::DataItem::SNAPSHOT;
  CHECK(item_of(pair.say(pair.second, kAnn, DataItems{{snapshot}})).kind == pb::DataItem::PARKED);

  REQUIRE(pair.greet(pair.second, kBob, 2).accepted());
  pair.open(pair.second, kBob, {2});
  CHECK(pair.second.report(JobId(7)).max_done == Clock(2));
  bool answered = false;
  for (const Outgoing& out : pair.push(pair.second, kBob, 1)) {
    for (const DataItem& item : std::get<DataItems>(out.message.body).items) {
      if (item.kind != pb::DataItem::VALUE) continue;
      answered = true;
      CHECK(floats_of(item.payload) == seen);
    }
  }
  CHECK(answered);
  CHECK_FALSE(pair.second.report(JobId(7)).settling);
}

TEST_CASE("an update that was sent before a change was prepared is taken after it too",
          "[replication]") {
  BackupPair pair(1, Slack(3));
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  pair.replicate();
  pair.job.state.set_hold_from(0);
  pair.take_over();
  REQUIRE(pair.greet(pair.second, kAnn, 2).accepted());
  pair.open(pair.second, kAnn, {1});
  CHECK(item_of(pair.push(pair.second, kAnn, 0)).kind == pb::DataItem::ACK);
  CHECK(item_of(pair.push(pair.second, kAnn, 1)).refusal == pb::DataItem::HELD);
}

TEST_CASE("what a stranger says it has sent neither opens nor closes a gate", "[replication]") {
  BackupPair pair(1);
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  (void)pair.push(pair.first, kAnn, 0);
  pair.replicate();
  pair.take_over();
  REQUIRE(pair.greet(pair.second, kAnn, 2).accepted());
  pair.open(pair.second, kAnn, {Clock::never().value()});
  CHECK(pair.second.report(JobId(7)).settling);
  pair.open(pair.second, kAnn, {-1});
  CHECK(pair.second.report(JobId(7)).settling);
  pb::OpenTables requested;
  *requested.add_tables() = to_wire(make_table(0, {4}));
  requested.add_sent(0);
  (void)pair.second.handle(PeerId(1), DataMessage{JobId(7), kAnn, Incarnation(9), requested},
                           TimePoint());
  CHECK(pair.second.report(JobId(7)).settling);
  pair.open(pair.second, kAnn, {1});
  CHECK_FALSE(pair.second.report(JobId(7)).settling);
}

TEST_CASE("a shard whose images are not whole cannot be taken over, and says so", "[replication]") {
  BackupPair pair(1);
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  pair.take_over();
  CHECK_THAT(pair.second.report(JobId(7)).error, Contains("its images are not whole"));
}

TEST_CASE("a request for a shard that was not taken over waits, and the server stays",
          "[replication]") {
  // Two hosts of a shard each; the first keeps the images of the second.
  JobMaker job(1, Slack(0), 2);
  job.state.set_replication_interval(1);
  for (std::uint32_t shard = 0; shard < 2; ++shard) {
    pb::ShardInfo& info = *job.state.mutable_shards(static_cast<int>(shard));
    info.set_host(shard);
    info.set_term(1);
  }
  test::choose(*job.state.mutable_shards(1), 0, 1);
  BufferPool pool;
  Shard first(ShardId(0), pool, 4);
  Shard second(ShardId(1), pool, 4);
  for (Shard* host : {&first, &second}) {
    host->set_dial({[](const std::string&) { return test::kBackup; }, [](PeerId) {}});
    (void)host->set_job(job.view());
  }
  const auto say = [&](Shard& host, auto body) {
    return host.handle(PeerId(1), DataMessage{JobId(7), kAnn, job.incarnation(kAnn), body},
                       TimePoint());
  };
  const auto open = [&](Shard& host, std::uint32_t shard, std::int64_t values) {
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job.hash());
    hello.set_shard(shard);
    hello.set_term(1);
    (void)say(host, hello);
    pb::OpenTables requested;
    *requested.add_tables() = to_wire(make_table(0, {values}));
    (void)say(host, requested);
  };
  open(first, 0, 8);
  std::string why = "its images are not whole";
  SECTION("there is no image") {}
  SECTION("the images are of other tables") {
    why = "its images are of other tables";
    open(second, 1, 12);
    for (const Outgoing& out : second.take_images(TimePoint())) {
      (void)first.handle(test::kPrimary, out.message, TimePoint());
    }
    REQUIRE(first.report(JobId(7)).copies.at(0).is_complete);
  }
  job.state.mutable_shards(1)->set_host(0);
  job.state.mutable_shards(1)->set_term(2);
  job.state.mutable_shards(1)->clear_backups();
  (void)first.set_job(job.view());
  CHECK_THAT(first.report(JobId(7)).error, Contains(why));
  for (std::uint32_t slice = 0; slice < 2; ++slice) {
    DataItem read;
    read.kind = pb::DataItem::READ;
    read.slice = SliceId(slice);
    const DataItem answer = item_of(say(first, DataItems{{read}}));
    CHECK(answer.kind == (slice == 0 ? pb::DataItem::VALUE : pb::DataItem::REFUSED));
    if (slice == 1) CHECK(answer.refusal == pb::DataItem::HELD);
  }
}

}  // namespace taut::server
