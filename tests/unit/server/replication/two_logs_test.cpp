#include "tests/unit/server/replication/shard_trio.hpp"

namespace taut::server {
namespace {

using test::item_of;
using test::kAnn;
using test::kBob;
using test::kSecond;
using test::Trio;

}  // namespace

TEST_CASE("a logged update counts once both backups have it", "[replication]") {
  Trio trio(1, true);
  trio.replicate(0);
  const auto before = trio.values(0);
  (void)trio.push(0, kAnn, 0);
  trio.cut = {2};
  trio.replicate(0);
  CHECK(trio.values(0) == before);
  CHECK(trio.told.empty());
  trio.cut.clear();
  trio.replicate(0, kSecond);
  CHECK(trio.values(0) != before);
  CHECK(trio.told.size() == 1);
}

TEST_CASE("what one backup alone had logged of a lost member is not read before the other has it",
          "[replication]") {
  Trio trio(2, true);
  trio.replicate(0);
  trio.cut = {2};
  for (const WorkerId worker : {kAnn, kBob}) (void)trio.push(0, worker, 0);
  trio.replicate(0);
  CHECK(trio.told.empty());
  trio.ended = {0};
  pb::Member& bob = *trio.job.state.mutable_members(1);
  bob.set_fenced(true);
  bob.set_leave_clock(1);
  trio.take_over(1);
  trio.open(1, kAnn, 2, 1);
  CHECK(item_of(trio.read(1, kAnn, 1)).kind == pb::DataItem::PARKED);
  CHECK(trio.hosts[1].report(JobId(7)).settling);
  trio.cut.clear();
  trio.told.clear();
  trio.replicate(1, kSecond);
  REQUIRE(trio.told.size() == 1);
  CHECK(item_of(trio.told).kind == pb::DataItem::VALUE);
  CHECK_FALSE(trio.hosts[1].report(JobId(7)).settling);
}

TEST_CASE("a logged update counts at a take-over though its lost worker has left before it",
          "[replication]") {
  Trio trio(3, true);
  trio.replicate(0);
  const auto leave_at_0 = [&](int member) {
    pb::Member& gone = *trio.job.state.mutable_members(member);
    gone.set_fenced(true);
    gone.set_leave_clock(0);
    trio.publish();
  };
  // One left earlier: what Ann and Bob push at clock 0 is all of it, and is seen. The image that is
  // sent meanwhile is from before.
  leave_at_0(2);
  for (const WorkerId worker : {kAnn, kBob}) (void)trio.push(0, worker, 0);
  trio.replicate(0);
  REQUIRE(item_of(trio.read(0, kAnn, 1)).kind == pb::DataItem::VALUE);
  // Another slice, elsewhere, does not have Bob's.
  leave_at_0(1);
  const auto seen = trio.values(0);
  trio.ended = {0};
  trio.take_over(1);
  trio.open(1, kAnn, 2, 1);
  for (int second = 1; second < 4; ++second) trio.replicate(1, second * kSecond);
  REQUIRE_FALSE(trio.hosts[1].report(JobId(7)).settling);
  CHECK(trio.values(1) == seen);
}

TEST_CASE("a logged update of a worker that has left counts at a second take-over as at the first",
          "[replication]") {
  Trio trio(2, true);
  trio.replicate(0);
  (void)trio.push(0, kBob, 0);
  trio.replicate_logs(0);
  trio.ended = {0};
  // Another slice, elsewhere, does not have it. Here it waits for Ann's.
  pb::Member& bob = *trio.job.state.mutable_members(1);
  bob.set_fenced(true);
  bob.set_leave_clock(0);
  trio.take_over(1);
  trio.open(1, kAnn, 2, 0);
  for (int second = 1; second < 4; ++second) trio.replicate(1, second * kSecond);
  REQUIRE_FALSE(trio.hosts[1].report(JobId(7)).settling);
  (void)trio.push(1, kAnn, 0);
  trio.replicate_logs(1);
  const auto seen = trio.values(1);
  trio.ended = {0, 1};
  trio.take_over(2);
  trio.open(2, kAnn, 3, 1);
  REQUIRE_FALSE(trio.hosts[2].report(JobId(7)).settling);
  CHECK(trio.values(2) == seen);
}

TEST_CASE("a lost backup of two delays no logged update until the next one has its images",
          "[replication]") {
  Trio trio(1, true);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.replicate(0);
  REQUIRE(trio.told.size() == 1);
  // Host 2 is lost and comes back as a new backup.
  for (pb::ShardBackup& one : *trio.shard().mutable_backups()) one.set_is_whole(true);
  trio.shard().mutable_backups()->RemoveLast();
  test::choose(trio.shard(), 2, 3);
  trio.publish();
  (void)trio.push(0, kAnn, 1);
  // What was logged arrives, and the images do not.
  trio.replicate_logs(0);
  CHECK(trio.told.size() == 2);
  trio.lose_primary(1, 2);
}

TEST_CASE("a new backup that has updates and no image is whole after the next change of backups",
          "[replication]") {
  // Slices hold what others have pushed, so the first image waits until it is logged.
  Trio trio(2, true);
  trio.replicate(0);
  trio.shard().mutable_backups()->RemoveLast();
  test::choose(trio.shard(), 2, 3);
  trio.publish();
  (void)trio.push(0, kAnn, 0);
  trio.replicate_logs(0);
  CHECK_FALSE(trio.is_whole(2));
  // Bob is lost before it has an image, and the other backup is replaced.
  pb::Member& bob = *trio.job.state.mutable_members(1);
  bob.set_fenced(true);
  bob.set_leave_clock(0);
  trio.shard().mutable_backups()->erase(trio.shard().mutable_backups()->begin());
  test::choose(trio.shard(), 1, 4);
  trio.publish();
  trio.replicate(0, kSecond);
  trio.replicate(0, 2 * kSecond);
  CHECK(trio.is_whole(1));
  CHECK(trio.is_whole(2));
  trio.lose_primary(2, 1);
}

TEST_CASE("where images take long, logged updates wait once there are too many", "[replication]") {
  Trio trio(1, true);
  trio.replicate(0);
  trio.told.clear();
  std::size_t clock = 0;
  while (clock < 50) {
    (void)trio.push(0, kAnn, static_cast<std::int64_t>(clock));
    trio.replicate_logs(0);
    if (trio.told.size() == clock) break;
    ++clock;
  }
  // An interval is one clock here.
  CHECK(clock == 5);
  trio.replicate(0, kSecond);
  trio.replicate(0, 2 * kSecond);
  CHECK(trio.told.size() == clock + 1);
}

TEST_CASE("what two primaries have logged continues a former image", "[replication]") {
  Trio trio(2, true);
  trio.replicate(0);
  // One update of each clock, so that slices hold it; no image is made of it.
  (void)trio.push(0, kAnn, 0);
  trio.replicate(0);
  trio.ended = {0};
  trio.take_over(1);
  trio.open(1, kAnn, 2, 1);
  trio.open(1, kBob, 2, 1);
  (void)trio.push(1, kBob, 0);
  trio.replicate_logs(1);
  trio.ended = {0, 1};
  trio.take_over(2);
  CHECK(trio.hosts[2].report(JobId(7)).error.empty());
  trio.open(2, kAnn, 3, 1);
  trio.open(2, kBob, 3, 1);
  // Both are there without being sent again.
  CHECK_FALSE(trio.hosts[2].report(JobId(7)).settling);
  CHECK(trio.hosts[2].report(JobId(7)).min_version == Clock(1));
}

}  // namespace taut::server
