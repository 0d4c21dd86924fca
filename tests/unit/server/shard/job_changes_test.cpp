#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "tests/unit/server/shard/talk.hpp"

namespace taut::server {
namespace {

using test::JobMaker;
using test::same_bits;
using test::Talk;

}  // namespace

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

}  // namespace taut::server
