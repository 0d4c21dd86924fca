#include <cstdint>
#include <utility>

#include "tests/unit/server/shard/talk.hpp"

namespace taut::server {
namespace {

using test::JobMaker;
using test::same_bits;
using test::Talk;

}  // namespace

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

}  // namespace taut::server
