// Jobs whose values do not follow from the updates alone: readers get what the backup has.
#include <algorithm>
#include <vector>

#include "tests/unit/server/replication/backup_pair.hpp"

namespace taut::server {
namespace {

using test::BackupPair;
using test::item_of;
using test::kAnn;
using test::kBob;

constexpr WorkerId kCid(2);

DataItem settle(BackupPair& pair, WorkerId worker, std::int64_t clock) {
  DataItem item;
  item.kind = pb::DataItem::SETTLE;
  item.clock = Clock(clock);
  return item_of(pair.say(pair.first, worker, DataItems{{item}}));
}

std::vector<float> snapshot(BackupPair& pair, Shard& host) {
  DataItem item;
  item.kind = pb::DataItem::SNAPSHOT;
  const DataItem answer = item_of(pair.say(host, kAnn, DataItems{{item}}));
  REQUIRE(answer.kind == pb::DataItem::SNAPSHOT_VALUE);
  return test::floats_of(answer.payload);
}

/// Workers that have opened the tables, of which the backup has the initial image.
class OpenPair : public BackupPair {
 public:
  OpenPair(std::vector<WorkerId> workers, Slack slack, const pb::Consistency& consistency)
      : BackupPair(static_cast<int>(workers.size()), slack) {
    *job.state.mutable_definition()->mutable_consistency() = consistency;
    job.state.mutable_definition()->set_workers(static_cast<std::uint32_t>(workers.size()));
    publish();
    for (const WorkerId worker : workers) {
      REQUIRE(greet(first, worker, 1).accepted());
      open(first, worker);
    }
    replicate();
    told.clear();
  }
};

/// Three workers, of which a clock needs two.
class BackupWorkers : public OpenPair {
 public:
  BackupWorkers() : OpenPair({kAnn, kBob, kCid}, Slack(0), consistency()) {}

 private:
  static pb::Consistency consistency() {
    pb::Consistency all;
    all.set_mode(pb::Consistency::BSP);
    all.set_backup_workers(1);
    return all;
  }
};

/// Two workers under SSP, whose every three updates make a step.
class Buffered : public OpenPair {
 public:
  Buffered() : OpenPair({kAnn, kBob}, Slack(8), consistency()) {}

 private:
  static pb::Consistency consistency() {
    pb::Consistency all;
    all.set_mode(pb::Consistency::SSP);
    all.set_slack(8);
    pb::PeriodicAveraging& averaging = *all.mutable_periodic_averaging();
    averaging.set_interval(1);
    averaging.mutable_outer()->set_type("SGD");
    averaging.mutable_outer()->set_lr(1);
    averaging.mutable_outer()->set_momentum(0);
    averaging.mutable_outer()->set_buffer(3);
    return all;
  }
};

}  // namespace

TEST_CASE("with backup workers a read waits until the backup has what it returns",
          "[replication]") {
  BackupWorkers pair;
  CHECK(item_of(pair.push(pair.first, kAnn, 0)).kind == pb::DataItem::ACK);
  CHECK(item_of(pair.push(pair.first, kBob, 0)).kind == pb::DataItem::ACK);
  CHECK(item_of(pair.read(pair.first, kAnn, 1)).kind == pb::DataItem::PARKED);
  pair.replicate();
  const DataItem answer = item_of(pair.told);
  CHECK(answer.kind == pb::DataItem::VALUE);
  CHECK(answer.version == Clock(1));
}

TEST_CASE("a shard with backup workers is taken over as readers saw it, whatever counted since",
          "[replication]") {
  BackupWorkers pair;
  (void)pair.push(pair.first, kAnn, 0);
  (void)pair.push(pair.first, kBob, 0);
  pair.replicate();
  const std::vector<float> seen = snapshot(pair, pair.first);
  // Clock 1 is made of Ann's update and Cid's, which no reader gets and the backup never has.
  (void)pair.push(pair.first, kCid, 0);
  (void)pair.push(pair.first, kAnn, 1);
  (void)pair.push(pair.first, kCid, 1);
  CHECK(item_of(pair.read(pair.first, kAnn, 2)).kind == pb::DataItem::PARKED);
  pair.lose(pair.first.take_images(TimePoint()));
  pair.take_over();
  for (const auto& [worker, sent] : {std::pair(kAnn, 2), {kBob, 1}, {kCid, 2}}) {
    REQUIRE(pair.greet(pair.second, worker, 2).accepted());
    (void)pair.open_tables(pair.second, worker, {sent});
  }
  for (const std::int64_t clock : {0, 1}) (void)pair.push(pair.second, kCid, clock);
  // Before Ann has repeated hers, another one makes the clock.
  (void)pair.push(pair.second, kBob, 1);
  (void)pair.push(pair.second, kAnn, 1);
  const DataItem answer = item_of(pair.read(pair.second, kAnn, 2));
  REQUIRE(answer.kind == pb::DataItem::VALUE);
  CHECK(answer.version == Clock(2));
  // SGD of rate 0.5 along the mean of the two that count.
  const auto bob = test::gradient_of(1, 1, 4);
  const auto cid = test::gradient_of(2, 1, 4);
  const auto now = test::floats_of(answer.payload);
  for (std::size_t i = 0; i < now.size(); ++i) {
    CHECK(now[i] == Approx(seen[i] - 0.5F * (bob[i] + cid[i]) / 2));
  }
}

TEST_CASE("a read waits for a step of the buffer, and not for updates that wait in it",
          "[replication][outer]") {
  Buffered pair;
  (void)pair.push(pair.first, kAnn, 0);
  (void)pair.push(pair.first, kBob, 0);
  CHECK(item_of(pair.read(pair.first, kAnn, 1)).kind == pb::DataItem::VALUE);
  (void)pair.push(pair.first, kAnn, 1);
  CHECK(item_of(pair.read(pair.first, kAnn, 2)).kind == pb::DataItem::PARKED);
  pair.replicate();
  CHECK(item_of(pair.told).kind == pb::DataItem::VALUE);
}

TEST_CASE("a worker that waits until its updates are safe does not wait for a full buffer",
          "[replication][outer]") {
  Buffered pair;
  const auto before = snapshot(pair, pair.first);
  (void)pair.push(pair.first, kAnn, 0);
  pair.replicate();
  CHECK(snapshot(pair, pair.first) == before);
  pair.told.clear();
  CHECK(settle(pair, kAnn, 1).stable < Clock(1));
  pair.replicate();
  const DataItem settled = item_of(pair.told);
  CHECK(settled.kind == pb::DataItem::SETTLED);
  CHECK(settled.stable == Clock(1));
  CHECK(snapshot(pair, pair.first) != before);
}

TEST_CASE("steps that updates allow meanwhile are made together, once the last one may be read",
          "[replication][outer]") {
  Buffered pair;
  for (const std::int64_t clock : {0, 1}) {
    (void)pair.push(pair.first, kAnn, clock);
    (void)pair.push(pair.first, kBob, clock);
  }
  const auto once = snapshot(pair, pair.first);
  // Its image is on its way while five more arrive: no other step is made before.
  for (const std::int64_t clock : {2, 3}) {
    (void)pair.push(pair.first, kAnn, clock);
    (void)pair.push(pair.first, kBob, clock);
  }
  CHECK(snapshot(pair, pair.first) == once);
  CHECK(item_of(pair.read(pair.first, kAnn, 4)).kind == pb::DataItem::PARKED);
  pair.told.clear();
  pair.replicate();
  REQUIRE(pair.told.size() == 1);
  const DataItem read = item_of(pair.told);
  CHECK(read.kind == pb::DataItem::VALUE);
  CHECK(test::floats_of(read.payload) == once);
  CHECK(snapshot(pair, pair.first) != once);
}

TEST_CASE("a buffered shard is taken over as readers saw it, and its next step is of three updates",
          "[replication][outer]") {
  Buffered pair;
  (void)pair.push(pair.first, kAnn, 0);
  (void)pair.push(pair.first, kBob, 0);
  (void)pair.push(pair.first, kAnn, 1);
  pair.replicate();
  const auto seen = snapshot(pair, pair.first);
  // A step that no reader gets: of Bob's updates of clocks 1 and 2 and Ann's of clock 2.
  (void)pair.push(pair.first, kBob, 1);
  (void)pair.push(pair.first, kAnn, 2);
  (void)pair.push(pair.first, kBob, 2);
  pair.lose(pair.first.take_images(TimePoint()));
  pair.take_over();
  for (const auto& [worker, sent] : {std::pair(kAnn, 4), {kBob, 3}}) {
    REQUIRE(pair.greet(pair.second, worker, 2).accepted());
    (void)pair.open_tables(pair.second, worker, {sent});
  }
  // Ann's one of clock 3 is among the first three now.
  (void)pair.push(pair.second, kAnn, 2);
  (void)pair.push(pair.second, kAnn, 3);
  (void)pair.push(pair.second, kBob, 1);
  (void)pair.push(pair.second, kBob, 2);
  const DataItem answer = item_of(pair.read(pair.second, kAnn, 4));
  REQUIRE(answer.kind == pb::DataItem::VALUE);
  const auto now = test::floats_of(answer.payload);
  const auto first = test::gradient_of(0, 2, 4);
  const auto second = test::gradient_of(0, 3, 4);
  const auto third = test::gradient_of(1, 1, 4);
  for (std::size_t i = 0; i < now.size(); ++i) {
    CHECK(now[i] == Approx(seen[i] - (first[i] + second[i] + third[i]) / 3));
  }
}

TEST_CASE("what waited in a buffer below an image's version is repeated and counts",
          "[replication][outer]") {
  Buffered pair;
  (void)pair.push(pair.first, kAnn, 0);
  (void)pair.push(pair.first, kBob, 0);
  pair.replicate();
  REQUIRE(pair.images.back().images.at(0).version == Clock(1));
  const auto seen = snapshot(pair, pair.first);
  pair.lose(pair.first.take_images(TimePoint()));
  pair.take_over();
  for (const WorkerId worker : {kAnn, kBob}) {
    REQUIRE(pair.greet(pair.second, worker, 2).accepted());
    (void)pair.open_tables(pair.second, worker, {1});
  }
  // The message with the first one is lost, and the next one arrives.
  const DataItem ahead = item_of(pair.push(pair.second, kAnn, 1));
  CHECK(ahead.kind == pb::DataItem::REFUSED);
  CHECK(ahead.done == Clock(0));
  (void)pair.push(pair.second, kAnn, 0);
  (void)pair.push(pair.second, kAnn, 1);
  (void)pair.push(pair.second, kBob, 0);
  const DataItem answer = item_of(pair.read(pair.second, kAnn, 2));
  REQUIRE(answer.kind == pb::DataItem::VALUE);
  CHECK(answer.version == Clock(1));
  const auto now = test::floats_of(answer.payload);
  const auto first = test::gradient_of(0, 0, 4);
  const auto second = test::gradient_of(0, 1, 4);
  const auto third = test::gradient_of(1, 0, 4);
  for (std::size_t i = 0; i < now.size(); ++i) {
    CHECK(now[i] == Approx(seen[i] - (first[i] + second[i] + third[i]) / 3));
  }
}

TEST_CASE("a checkpoint of a buffered shard that was taken over has what is repeated below its V",
          "[replication][outer]") {
  Buffered pair;
  (void)pair.push(pair.first, kAnn, 0);
  (void)pair.push(pair.first, kBob, 0);
  pair.replicate();
  REQUIRE(pair.images.back().images.at(0).version == Clock(1));
  const auto seen = snapshot(pair, pair.first);
  pb::CheckpointOrder& order = *pair.job.state.mutable_checkpoint();
  order.set_number(3);
  order.set_clock(1);
  pair.take_over();
  CHECK(pair.second.take_captures().empty());
  for (const WorkerId worker : {kAnn, kBob}) {
    REQUIRE(pair.greet(pair.second, worker, 2).accepted());
    (void)pair.open_tables(pair.second, worker, {1});
  }
  (void)pair.push(pair.second, kAnn, 0);
  CHECK(pair.second.take_captures().empty());
  (void)pair.push(pair.second, kBob, 0);
  const std::vector<ShardCapture> captures = pair.second.take_captures();
  REQUIRE(captures.size() == 1);
  const SliceImage& image = captures[0].slices.at(0);
  CHECK(image.version == Clock(1));
  for (const WorkerId worker : {kAnn, kBob}) CHECK(image.done.at(worker) == Clock(1));
  const auto ann = test::gradient_of(0, 0, 4);
  const auto bob = test::gradient_of(1, 0, 4);
  const auto saved = image.values.floats();
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(saved[i] == Approx(seen[i] - (ann[i] + bob[i]) / 3));
  }
}

TEST_CASE("a follower gets a version once the backup has it", "[replication]") {
  BackupWorkers pair;
  (void)pair.push(pair.first, kAnn, 0);
  (void)pair.push(pair.first, kBob, 0);
  DataItem item;
  item.kind = pb::DataItem::FOLLOW;
  item.clock = Clock(1);
  CHECK(item_of(pair.say(pair.first, kCid, DataItems{{item}})).kind == pb::DataItem::PARKED);
  pair.replicate();
  CHECK(item_of(pair.told).kind == pb::DataItem::FOLLOW_VALUE);
}

TEST_CASE("where updates are logged too, a version is shown once the backup has its image",
          "[replication]") {
  BackupWorkers pair;
  pair.job.state.set_logs_updates(true);
  pair.publish();
  pair.replicate();
  pair.told.clear();
  (void)pair.push(pair.first, kAnn, 0);
  (void)pair.push(pair.first, kBob, 0);
  // The first message has the updates, which then make the clock.
  pair.replicate();
  pair.told.clear();
  CHECK(item_of(pair.read(pair.first, kAnn, 1)).kind == pb::DataItem::PARKED);
  pair.replicate();
  CHECK(item_of(pair.told).kind == pb::DataItem::VALUE);
}

TEST_CASE("without a backup any more, readers get what there is", "[replication]") {
  BackupWorkers pair;
  (void)pair.push(pair.first, kAnn, 0);
  (void)pair.push(pair.first, kBob, 0);
  CHECK(item_of(pair.read(pair.first, kAnn, 1)).kind == pb::DataItem::PARKED);
  pair.told.clear();
  pair.shard().clear_backups();
  pair.shard().set_copy(2);
  pair.send(pair.first.set_job(pair.job.view()));
  CHECK(item_of(pair.told).kind == pb::DataItem::VALUE);
}

}  // namespace taut::server
