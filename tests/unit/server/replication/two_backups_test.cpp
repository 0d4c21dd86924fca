#include <map>
#include <utility>

#include "tests/unit/server/replication/shard_trio.hpp"

namespace taut::server {
namespace {

using test::item_of;
using test::kAnn;
using test::kSecond;
using test::Trio;

}  // namespace

TEST_CASE("an update is stable once both backups have its image", "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  CHECK(trio.is_whole(1));
  CHECK(trio.is_whole(2));
  (void)trio.push(0, kAnn, 0);
  trio.cut = {2};
  trio.replicate(0);
  CHECK(item_of(trio.push(0, kAnn, 1)).stable == Clock(0));
  trio.cut.clear();
  // The same image once more, for the one that lacks it.
  trio.replicate(0, kSecond);
  trio.replicate(0, kSecond);
  CHECK(item_of(trio.push(0, kAnn, 2)).stable == Clock(2));
}

TEST_CASE("of two backups only the one that does not answer is given up", "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.cut = {1};
  for (int second = 1; second < 14; ++second) trio.replicate(0, second * kSecond);
  const auto problems = trio.hosts[0].report(JobId(7)).problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].choice == 1);
}

TEST_CASE("each of two backups lags by what it lacks itself", "[replication]") {
  Trio trio(1);
  const auto lags = [&](std::size_t host, int second) {
    std::map<std::uint64_t, std::pair<Duration, std::int64_t>> found;  // by choice
    for (const BackupLag& lag : trio.hosts.at(host).backup_lags(TimePoint(second * kSecond))) {
      found[lag.choice] = {lag.time, lag.clocks};
    }
    return found;
  };
  using Lags = std::map<std::uint64_t, std::pair<Duration, std::int64_t>>;
  constexpr std::pair<Duration, std::int64_t> kNone{Duration::zero(), 0};
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.cut = {2};
  trio.replicate(0, 1 * kSecond);
  CHECK(lags(0, 4) == Lags{{1, kNone}, {2, {3 * kSecond, 1}}});
  // Another one takes its place: the first keeps what it has.
  trio.cut.clear();
  trio.shard().mutable_backups()->RemoveLast();
  trio.shard().mutable_backups(0)->set_is_whole(true);
  test::choose(trio.shard(), 2, 3);
  trio.publish();
  trio.cut = {2};
  trio.replicate(0, 5 * kSecond);
  CHECK(lags(0, 7) == Lags{{1, kNone}, {3, {2 * kSecond, 1}}});
  trio.cut.clear();
  trio.replicate(0, 8 * kSecond);
  CHECK(lags(0, 9) == Lags{{1, kNone}, {3, kNone}});
  // What the other one has is not known to the one that takes over.
  for (pb::ShardBackup& one : *trio.shard().mutable_backups()) one.set_is_whole(true);
  trio.ended = {0};
  trio.take_over(1);
  trio.open(1, kAnn, 2, 1);
  trio.replicate(1, 10 * kSecond);
  CHECK(lags(1, 13) == Lags{{3, {3 * kSecond, 0}}});
  (void)trio.push(1, kAnn, 1);
  trio.replicate(1, 14 * kSecond);
  CHECK(lags(1, 15) == Lags{{3, kNone}});
}

TEST_CASE("a backup keeps its images when the other one takes over, until new ones arrive",
          "[replication]") {
  Trio trio(1);
  (void)trio.push(0, kAnn, 0);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 1);
  const auto seen = trio.values(0);
  trio.ended = {0};
  trio.take_over(1);
  // It is lost as well, before it has sent an image.
  CHECK(trio.is_whole(2));
  SECTION("nothing newer was said to be safe in between") {
    trio.open(1, kAnn, 2, 2);
    CHECK(item_of(trio.push(1, kAnn, 1)).stable == Clock(0));
    CHECK(trio.values(1) == seen);
  }
  SECTION("it has sent one") {
    trio.open(1, kAnn, 2, 2);
    (void)trio.push(1, kAnn, 1);
    trio.replicate(1);
    CHECK(trio.is_whole(2));
    CHECK(item_of(trio.push(1, kAnn, 1)).stable == Clock(2));
  }
  trio.ended = {0, 1};
  trio.take_over(2);
  CHECK(trio.hosts[2].report(JobId(7)).error.empty());
  trio.open(2, kAnn, 3, 2);
  (void)trio.push(2, kAnn, 1);
  CHECK(trio.values(2) == seen);
}

TEST_CASE("a backup that was chosen again begins again", "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  CHECK(trio.is_whole(2));
  trio.shard().mutable_backups()->RemoveLast();
  test::choose(trio.shard(), 2, 3);
  trio.publish();
  CHECK_FALSE(trio.is_whole(2));
  CHECK(trio.is_whole(1));
  trio.replicate(0);
  CHECK(trio.is_whole(2));
}

TEST_CASE("a new backup gets an image at once, and the one that is whole the next in its turn",
          "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.replicate(0);
  auto& backups = *trio.shard().mutable_backups();
  backups.RemoveLast();
  backups.Mutable(0)->set_is_whole(true);
  test::choose(trio.shard(), 2, 3);
  trio.images.clear();
  trio.publish();
  (void)trio.hosts[0].take_changed();
  trio.replicate(0);
  CHECK(trio.images == std::map<std::size_t, std::size_t>{{2, 1}});
  CHECK(trio.is_whole(1));
  CHECK(trio.is_whole(2));
  // What both have is what was stable before.
  CHECK(item_of(trio.push(0, kAnn, 1)).stable == Clock(1));
  trio.replicate(0);
  CHECK(trio.images == std::map<std::size_t, std::size_t>{{1, 1}, {2, 2}});
  CHECK(item_of(trio.push(0, kAnn, 2)).stable == Clock(2));
}

TEST_CASE("backups that are all whole get no image because of a change", "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.replicate(0);
  trio.images.clear();
  for (pb::ShardBackup& one : *trio.shard().mutable_backups()) one.set_is_whole(true);
  SECTION("the other backup is lost") {
    trio.shard().mutable_backups()->RemoveLast();
    trio.shard().set_copy(3);
    trio.publish();
    trio.replicate(0);
    CHECK(trio.images.empty());
    CHECK(item_of(trio.push(0, kAnn, 1)).stable == Clock(1));
    trio.replicate(0);
    CHECK(item_of(trio.push(0, kAnn, 2)).stable == Clock(2));
  }
  SECTION("the other backup takes over") {
    trio.ended = {0};
    trio.take_over(1);
    trio.open(1, kAnn, 2, 1);
    trio.replicate(1);
    CHECK(trio.images.empty());
    (void)trio.push(1, kAnn, 1);
    trio.replicate(1);
    CHECK(trio.images == std::map<std::size_t, std::size_t>{{2, 1}});
  }
}

TEST_CASE("with backup workers a read waits for both backups, and for one that takes the place",
          "[replication]") {
  Trio trio(2, false, 1);
  trio.replicate(0);
  trio.cut = {2};
  (void)trio.push(0, kAnn, 0);
  trio.told.clear();
  CHECK(item_of(trio.read(0, kAnn, 1)).kind == pb::DataItem::PARKED);
  trio.replicate(0);
  CHECK(trio.told.empty());
  // The one that does not answer is no backup any more: the other one has it.
  trio.shard().mutable_backups()->DeleteSubrange(1, 1);
  trio.shard().set_copy(3);
  trio.publish();
  trio.replicate(0);
  CHECK(item_of(trio.told).kind == pb::DataItem::VALUE);
}

TEST_CASE("a backup that has not answered is given up as early where another one has changed",
          "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.cut = {1, 2};
  for (int second = 1; second < 8; ++second) trio.replicate(0, second * kSecond);
  CHECK(trio.hosts[0].report(JobId(7)).problems.empty());
  trio.shard().mutable_backups()->RemoveLast();
  test::choose(trio.shard(), 2, 3);
  trio.publish();
  for (int second = 8; second < 14; ++second) trio.replicate(0, second * kSecond);
  const auto problems = trio.hosts[0].report(JobId(7)).problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].choice == 1);
}

TEST_CASE("a backup that owes nothing since the others changed is not given up", "[replication]") {
  Trio trio(1);
  trio.replicate(0);
  (void)trio.push(0, kAnn, 0);
  trio.cut = {1};
  trio.replicate(0, kSecond);
  trio.cut = {};
  // The image on its way is of no use any more, and the next one is far.
  trio.job.state.set_replication_interval(100);
  for (pb::ShardBackup& one : *trio.shard().mutable_backups()) one.set_is_whole(true);
  trio.shard().mutable_backups()->RemoveLast();
  trio.shard().set_copy(3);
  trio.publish();
  for (int second = 2; second < 40; ++second) trio.replicate(0, second * kSecond);
  for (int clock = 1; clock < 101; ++clock) (void)trio.push(0, kAnn, clock);
  // It is asked again, and has not answered yet.
  trio.cut = {1};
  trio.replicate(0, 40 * kSecond);
  trio.replicate(0, 42 * kSecond);
  CHECK(trio.hosts[0].report(JobId(7)).problems.empty());
}

TEST_CASE("an image on its way when backups change is due again at once", "[replication]") {
  Trio trio(1);
  trio.job.state.set_replication_interval(4);
  trio.publish();
  trio.replicate(0);
  for (int clock = 0; clock < 4; ++clock) (void)trio.push(0, kAnn, clock);
  trio.cut = {1, 2};
  trio.replicate(0);
  trio.cut = {};
  for (pb::ShardBackup& one : *trio.shard().mutable_backups()) one.set_is_whole(true);
  trio.shard().mutable_backups()->RemoveLast();
  trio.shard().set_copy(3);
  trio.publish();
  (void)trio.push(0, kAnn, 4);
  trio.replicate(0);
  CHECK(item_of(trio.push(0, kAnn, 5)).stable == Clock(5));
}

}  // namespace taut::server
