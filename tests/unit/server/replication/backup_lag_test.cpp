// How far a backup is behind, as its primary sees it.
#include <vector>

#include "tests/unit/server/replication/backup_pair.hpp"

namespace taut::server {
namespace {

using test::BackupPair;
using test::item_of;
using test::kAnn;

TimePoint at(int second) {
  return TimePoint(std::chrono::seconds(second));
}

/// One worker, whose updates are applied as they arrive.
class LagPair : public BackupPair {
 public:
  explicit LagPair(bool logs = false) : BackupPair(1, Slack(3)) {
    job.state.set_logs_updates(logs);
    job.state.set_revision(job.state.revision() + 1);
    publish();
    REQUIRE(greet(first, kAnn, 1).accepted());
    open(first, kAnn);
  }
  void deliver(int second) { send(first.take_images(at(second))); }
  void lose_images(int second) { lose(first.take_images(at(second))); }
  [[nodiscard]] BackupLag lag(int second) const {
    const std::vector<BackupLag> lags = first.backup_lags(at(second));
    REQUIRE(lags.size() == 1);
    return lags[0];
  }
};

TEST_CASE("a backup lags since the oldest update that its newest image lacks", "[replication]") {
  LagPair pair;
  pair.deliver(1);
  CHECK(pair.lag(2).shard == ShardId(0));
  CHECK(pair.lag(2).term == 1);
  CHECK(pair.lag(2).choice == 1);
  CHECK(pair.lag(2).time == Duration::zero());
  CHECK(pair.lag(2).clocks == 0);

  (void)pair.push(pair.first, kAnn, 0);
  pair.lose_images(10);
  CHECK(pair.lag(13).time == std::chrono::seconds(3));
  CHECK(pair.lag(13).clocks == 1);
  // What is newer does not make the rest younger.
  (void)pair.push(pair.first, kAnn, 1);
  pair.lose_images(12);
  CHECK(pair.lag(13).time == std::chrono::seconds(3));
  CHECK(pair.lag(13).clocks == 2);
  // The image of the first update arrives, and the second one is not in it.
  pair.deliver(14);
  CHECK(pair.lag(15).time == std::chrono::seconds(3));
  CHECK(pair.lag(15).clocks == 1);
  pair.deliver(16);
  CHECK(pair.lag(30).time == Duration::zero());
  CHECK(pair.lag(30).clocks == 0);
}

TEST_CASE("a backup lags while the next image is not due yet", "[replication]") {
  LagPair pair;
  pair.job.state.set_replication_interval(100);
  pair.job.state.set_revision(pair.job.state.revision() + 1);
  pair.publish();
  pair.deliver(1);
  (void)pair.push(pair.first, kAnn, 0);
  pair.deliver(5);
  REQUIRE(pair.images.size() == 1);
  CHECK(pair.lag(9).time == std::chrono::seconds(4));
  CHECK(pair.lag(9).clocks == 1);
}

TEST_CASE("a backup without an image lags since it was chosen", "[replication]") {
  LagPair pair;
  pair.lose_images(1);
  CHECK(pair.lag(5).time == std::chrono::seconds(4));
  (void)pair.push(pair.first, kAnn, 0);
  pair.lose_images(6);
  CHECK(pair.lag(8).time == std::chrono::seconds(7));
  CHECK(pair.lag(8).clocks == 1);
}

TEST_CASE("a backup that has an image lags by the updates that wait for it, where they are logged",
          "[replication]") {
  LagPair pair(true);
  pair.lose_images(1);
  CHECK(pair.lag(4).time == std::chrono::seconds(3));
  pair.deliver(5);
  CHECK(pair.lag(9).time == Duration::zero());
  (void)pair.push(pair.first, kAnn, 0);
  pair.lose_images(10);
  CHECK(pair.lag(12).time == std::chrono::seconds(2));
  CHECK(pair.lag(12).clocks == 0);
  // The backup has the update, and counts on no image for it.
  pair.told.clear();
  pair.deliver(13);
  REQUIRE(item_of(pair.told).kind == pb::DataItem::ACK);
  pair.lose_images(14);
  CHECK(pair.lag(30).time == Duration::zero());
  CHECK(pair.lag(30).clocks == 0);
}

}  // namespace
}  // namespace taut::server
