#include <cstdint>
#include <vector>

#include "tests/unit/server/shard/talk.hpp"

namespace taut::server {
namespace {

using test::JobMaker;
using test::kPeer;
using test::same_bits;
using test::Talk;

}  // namespace

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
  // One that was lost is no longer waited for.
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

}  // namespace taut::server
