// Updates that count once the backup has them: `durability: SYNC`.
#include <vector>

#include "server/replication/update_log.hpp"
#include "tests/unit/server/replication/backup_pair.hpp"

namespace taut::server {
namespace {

using test::BackupPair;
using test::floats_of;
using test::item_of;
using test::kAnn;
using test::kBob;

const Duration kAgain = Dial().again;
constexpr TimePoint kLater = TimePoint() + Duration(10'000'000);

/// Two hosts of a job that logs updates, whose tables are open and replicated.
struct Logged : BackupPair {
  explicit Logged(int members, Slack slack = Slack(0)) : BackupPair(members, slack) {
    job.state.set_logs_updates(true);
    publish();
    for (int i = 0; i < members; ++i) {
      const WorkerId worker(static_cast<std::uint32_t>(i));
      CHECK(greet(first, worker, 1).accepted());
      open(first, worker);
    }
    replicate();
    told.clear();
    images.clear();
  }

  std::vector<float> values(Shard& host) {
    DataItem item;
    item.kind = pb::DataItem::SNAPSHOT;
    const DataItem answer = item_of(say(host, kAnn, DataItems{{item}}));
    REQUIRE(answer.kind == pb::DataItem::SNAPSHOT_VALUE);
    return floats_of(answer.payload);
  }
  void lose_member(WorkerId worker, std::int64_t leave) {
    pb::Member& member = *job.state.mutable_members(static_cast<int>(worker.value()));
    member.set_fenced(true);
    member.set_leave_clock(leave);
  }
};

UpdateLog::Push push_of(WorkerId worker, std::int64_t clock) {
  UpdateLog::Push push;
  push.worker = worker;
  push.item.kind = pb::DataItem::PUSH;
  push.item.clock = Clock(clock);
  return push;
}

DataImages sent_of(UpdateLog& log, TimePoint now) {
  DataImages batch;
  std::uint64_t under_way = log.under_way();
  log.send({&batch, 1}, under_way, now, kAgain);
  return batch;
}

std::vector<std::int64_t> clocks_of(const std::vector<UpdateLog::Push>& pushes) {
  std::vector<std::int64_t> clocks;
  clocks.reserve(pushes.size());
  for (const UpdateLog::Push& push : pushes) clocks.push_back(push.item.clock.value());
  return clocks;
}

}  // namespace

TEST_CASE("updates are released in the order in which they arrived", "[replication]") {
  UpdateLog log;
  log.add(push_of(kAnn, 3));
  log.add(push_of(kBob, 2));
  const DataImages batch = sent_of(log, TimePoint());
  REQUIRE(batch.logged.size() == 2);
  log.note_kept(0, kBob, Clock(2));
  CHECK(log.take_kept().empty());
  log.note_kept(0, kAnn, Clock(3));
  CHECK(clocks_of(log.take_kept()) == std::vector<std::int64_t>{3, 2});
  CHECK(log.empty());
}

TEST_CASE("an update is sent again until the backup has it, and by another backup again",
          "[replication]") {
  UpdateLog log;
  log.add(push_of(kAnn, 0));
  log.add(push_of(kAnn, 1));
  const auto sent = [&](TimePoint now) { return sent_of(log, now).logged.size(); };
  CHECK(log.lacks_since(0) == TimePoint::never());
  CHECK(sent(TimePoint()) == 2);
  CHECK(log.lacks_since(0) == TimePoint());
  CHECK(sent(TimePoint() + (kAgain - Duration(1))) == 0);
  log.note_kept(0, kAnn, Clock(1));
  CHECK(sent(TimePoint() + kAgain) == 1);
  log.reset(1);
  CHECK(sent(kLater) == 2);
  CHECK(log.lacks_since(0) == kLater);
}

TEST_CASE("bytes of updates in flight are limited, and the rest waits", "[replication]") {
  UpdateLog log;
  BufferPool pool;
  for (std::int64_t clock = 0; clock < 5; ++clock) {
    UpdateLog::Push push = push_of(kAnn, clock);
    push.item.payload = Frame(pool.acquire(UpdateLog::kMaxBytesInFlight / 2));
    log.add(std::move(push));
  }
  CHECK(sent_of(log, TimePoint()).logged.size() == 2);
  CHECK(sent_of(log, TimePoint()).logged.empty());
  log.note_kept(0, kAnn, Clock(1));
  CHECK(sent_of(log, TimePoint()).logged.size() == 1);
  // Again after half a second, then after twice as long.
  CHECK(sent_of(log, TimePoint() + kAgain).logged.size() == 2);
  CHECK(sent_of(log, TimePoint() + 2 * kAgain).logged.empty());
  CHECK(sent_of(log, TimePoint() + 3 * kAgain).logged.size() == 2);
}

TEST_CASE("a copy of an update takes its place, and what the slice holds goes first",
          "[replication]") {
  UpdateLog log;
  log.add(push_of(kAnn, 0));
  UpdateLog::Push again = push_of(kAnn, 0);
  again.from = PeerId(9);
  log.add(again);
  log.add_first({push_of(kBob, 7)});
  const DataImages batch = sent_of(log, TimePoint());
  REQUIRE(batch.logged.size() == 2);
  CHECK(batch.logged[0].worker == kBob);
  log.note_kept(0, kAnn, Clock(0));
  CHECK(log.take_kept().empty());
  log.note_kept(0, kBob, Clock(7));
  const auto kept = log.take_kept();
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].from == PeerId(9));
}

TEST_CASE("an update counts, and is acknowledged, once the backup has it", "[replication]") {
  Logged pair(1, Slack::unbounded());
  const auto before = pair.values(pair.first);
  CHECK(pair.push(pair.first, kAnn, 0).empty());
  CHECK(pair.values(pair.first) == before);
  pair.replicate();
  REQUIRE(pair.told.size() == 1);
  const DataItem answer = item_of(pair.told);
  CHECK(answer.kind == pb::DataItem::ACK);
  CHECK(answer.done == Clock(1));
  CHECK(pair.values(pair.first) != before);
}

TEST_CASE("a primary and a worker are lost at once, and nothing that counted with them",
          "[replication]") {
  Logged pair(2, Slack::unbounded());
  (void)pair.push(pair.first, kAnn, 0);
  pair.replicate();
  // The backup has these, and no image of them.
  (void)pair.push(pair.first, kAnn, 1);
  (void)pair.push(pair.first, kAnn, 2);
  for (Outgoing& out : pair.first.take_images(TimePoint())) {
    auto& batch = std::get<DataImages>(out.message.body);
    batch.images.clear();
    for (Outgoing& reply : pair.second.handle(test::kPrimary, out.message, TimePoint())) {
      pair.send(pair.first.handle(test::kBackup, std::move(reply.message), TimePoint()));
    }
  }
  const auto seen = pair.values(pair.first);
  pair.lose_member(kAnn, 3);
  pair.take_over();
  CHECK(pair.greet(pair.second, kBob, 2).accepted());
  pair.open(pair.second, kBob, {0});
  DataItem item;
  item.kind = pb::DataItem::SNAPSHOT;
  const DataItem answer = item_of(pair.say(pair.second, kBob, DataItems{{item}}));
  REQUIRE(answer.kind == pb::DataItem::SNAPSHOT_VALUE);
  CHECK(floats_of(answer.payload) == seen);
}

TEST_CASE("what the backup did not acknowledge does not count", "[replication]") {
  Logged pair(1, Slack::unbounded());
  const auto before = pair.values(pair.first);
  (void)pair.push(pair.first, kAnn, 0);
  pair.lose(pair.first.take_images(TimePoint()));
  REQUIRE(pair.images.size() == 1);
  CHECK(pair.images[0].logged.size() == 1);
  CHECK(pair.values(pair.first) == before);
  CHECK(pair.told.empty());
  // Without a backup it counts.
  pb::ShardInfo& shard = *pair.job.state.mutable_shards(0);
  shard.clear_backups();
  pair.publish();
  REQUIRE(pair.told.size() == 1);
  CHECK(item_of(pair.told).kind == pb::DataItem::ACK);
  CHECK(pair.values(pair.first) != before);
}

TEST_CASE("a repeated push is logged once and answered where it came from last", "[replication]") {
  Logged pair(1, Slack::unbounded());
  (void)pair.push(pair.first, kAnn, 0);
  // The worker hears that the shard is alive.
  CHECK(item_of(pair.push(pair.first, kAnn, 0)).kind == pb::DataItem::PARKED);
  pair.replicate();
  CHECK(pair.told.size() == 1);
  // It counts already: acknowledged at once.
  CHECK(item_of(pair.push(pair.first, kAnn, 0)).kind == pb::DataItem::ACK);
  // A clock is missing before this one.
  const DataItem ahead = item_of(pair.push(pair.first, kAnn, 5));
  CHECK(ahead.refusal == pb::DataItem::OUT_OF_ORDER);
}

TEST_CASE("an update after one that is missing is refused, and the missing one waits too",
          "[replication]") {
  Logged pair(1, Slack::unbounded());
  const auto before = pair.values(pair.first);
  CHECK(pair.push(pair.first, kAnn, 0).empty());
  const DataItem ahead = item_of(pair.push(pair.first, kAnn, 2));
  CHECK(ahead.refusal == pb::DataItem::OUT_OF_ORDER);
  CHECK(pair.push(pair.first, kAnn, 1).empty());
  CHECK(pair.push(pair.first, kAnn, 2).empty());
  CHECK(pair.values(pair.first) == before);
  pair.replicate();
  CHECK(pair.told.size() == 1);
  CHECK(pair.values(pair.first) != before);
}

TEST_CASE("nothing counts without its backup where too many updates wait", "[replication]") {
  Logged pair(2, Slack::unbounded());
  const auto before = pair.values(pair.first);
  for (std::int64_t clock = 0; clock < static_cast<std::int64_t>(UpdateLog::kMaxUpdates); ++clock) {
    CHECK(pair.push(pair.first, kAnn, clock).empty());
  }
  CHECK(item_of(pair.push(pair.first, kBob, 0)).kind == pb::DataItem::PARKED);
  CHECK(pair.values(pair.first) == before);
}

TEST_CASE("what a member pushes ahead of the others without reading is logged up to a limit",
          "[replication][hostile]") {
  const std::int64_t slack = GENERATE(0, 2);
  CAPTURE(slack);
  Logged pair(2, Slack(slack));
  const std::int64_t limit = 2 * (slack + 2);  // two clocks of each member, and the slack
  for (std::int64_t clock = 0; clock < limit; ++clock) {
    CHECK(pair.push(pair.first, kAnn, clock).empty());
  }
  CHECK(item_of(pair.push(pair.first, kAnn, limit)).refusal == pb::DataItem::HELD);
  // It is here already.
  CHECK(item_of(pair.push(pair.first, kAnn, limit - 1)).kind == pb::DataItem::PARKED);
  // The others are never kept back, and once the backup has theirs it continues.
  CHECK(pair.push(pair.first, kBob, 0).empty());
  CHECK(item_of(pair.push(pair.first, kAnn, limit)).refusal == pb::DataItem::HELD);
  for (int i = 0; i < 3; ++i) pair.replicate();
  CHECK(pair.push(pair.first, kAnn, limit).empty());
}

TEST_CASE("what the slice holds of a member that pushes ahead counts with what is logged",
          "[replication][hostile]") {
  Logged pair(2);
  for (std::int64_t clock = 0; clock < 4; ++clock) {
    CHECK(pair.push(pair.first, kAnn, clock).empty());
    if (clock == 1) pair.replicate();
  }
  CHECK(pair.first.queues().held_updates == 2);
  CHECK(item_of(pair.push(pair.first, kAnn, 4)).refusal == pb::DataItem::HELD);
  pair.replicate();
  CHECK(pair.first.queues().held_updates == 4);
  CHECK(item_of(pair.push(pair.first, kAnn, 4)).refusal == pb::DataItem::HELD);
}

TEST_CASE("what was logged counts up to where its member leaves, and is known until then",
          "[replication]") {
  Logged pair(2, Slack::unbounded());
  const auto before = pair.values(pair.first);
  CHECK(pair.push(pair.first, kAnn, 0).empty());
  CHECK(pair.push(pair.first, kAnn, 1).empty());
  // Lost: its leave clock follows from what the servers report.
  pair.lose_member(kAnn, Clock::never().value());
  pair.publish();
  CHECK(pair.first.report(JobId(7)).fenced.at(kAnn) == Clock(2));
  SECTION("all of it") {
    pair.replicate();
    CHECK(pair.values(pair.first) != before);
    // Not forgotten before an image holds it.
    CHECK(pair.first.report(JobId(7)).min_version == Clock(0));
  }
  SECTION("none: elsewhere its updates end before") {
    pair.lose_member(kAnn, 0);
    pair.publish();
    pair.told.clear();
    // Nothing counts before an image that was made since.
    for (int i = 0; i < 3; ++i) pair.replicate();
    CHECK(pair.values(pair.first) == before);
    REQUIRE_FALSE(pair.told.empty());
    for (const Outgoing& out : pair.told) {
      for (const DataItem& item : std::get<DataItems>(out.message.body).items) {
        CHECK(item.refusal == pb::DataItem::STALE_INCARNATION);
      }
    }
    CHECK(pair.images.back().images.size() + pair.images.front().images.size() > 0);
  }
}

TEST_CASE("a lost member that leaves below its updates here is known until an image holds them",
          "[replication]") {
  Logged pair(2, Slack::unbounded());
  const auto before = pair.values(pair.first);
  (void)pair.push(pair.first, kAnn, 0);
  pair.replicate();
  CHECK(pair.values(pair.first) != before);
  // Another slice has none of them.
  pair.lose_member(kAnn, 0);
  pair.publish();
  CHECK(pair.first.report(JobId(7)).min_version < Clock(0));
  pair.replicate();
  CHECK(pair.first.report(JobId(7)).min_version == Clock(0));
}

TEST_CASE("what was logged before an epoch is prepared counts, and the coordinator knows of it",
          "[replication]") {
  Logged pair(1, Slack::unbounded());
  CHECK(pair.push(pair.first, kAnn, 0).empty());
  CHECK(pair.first.report(JobId(7)).max_done == Clock(1));
  pair.job.state.set_hold_from(0);
  pair.publish();
  pair.told.clear();
  pair.replicate();
  REQUIRE(pair.told.size() == 1);
  CHECK(item_of(pair.told).kind == pb::DataItem::ACK);
  CHECK(item_of(pair.push(pair.first, kAnn, 1)).refusal == pb::DataItem::HELD);
}

TEST_CASE("a new backup gets the updates that wait for others of their clock", "[replication]") {
  Logged pair(2);
  (void)pair.push(pair.first, kAnn, 0);
  pair.replicate();
  CHECK(pair.told.size() == 1);
  pb::ShardInfo& shard = *pair.job.state.mutable_shards(0);
  shard.clear_backups();
  test::choose(shard, 1, 2);
  pair.images.clear();
  pair.publish();
  pair.replicate();
  REQUIRE_FALSE(pair.images.empty());
  REQUIRE(pair.images[0].logged.size() == 1);
  CHECK(pair.images[0].logged[0].worker == kAnn);
  // It is whole once it has them.
  CHECK(pair.images[0].images.empty());
  pair.images.clear();
  pair.replicate();
  REQUIRE_FALSE(pair.images.empty());
  CHECK(pair.images[0].images.size() == 1);
}

TEST_CASE("a take-over from images and what was logged since has the last values",
          "[replication]") {
  Logged pair(1, Slack::unbounded());
  for (std::int64_t clock = 0; clock < 4; ++clock) {
    (void)pair.push(pair.first, kAnn, clock);
    pair.replicate();
  }
  const auto seen = pair.values(pair.first);
  pair.take_over();
  CHECK(pair.greet(pair.second, kAnn, 2).accepted());
  pair.open(pair.second, kAnn, {4});
  CHECK(pair.values(pair.second) == seen);
}

}  // namespace taut::server
