#include <memory>
#include <vector>

#include "tests/unit/server/replication/backup_pair.hpp"

namespace taut::server {
namespace {

using Catch::Matchers::Contains;
using test::BackupPair;
using test::item_of;
using test::kAnn;
using test::kBob;
using test::make_table;

}  // namespace

TEST_CASE("an update is stable once the backup has its image, and not before", "[replication]") {
  BackupPair pair(1);
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  pair.replicate();
  CHECK(pair.first.report(JobId(7)).copies.empty());
  REQUIRE(pair.second.report(JobId(7)).copies.size() == 1);
  CHECK(pair.second.report(JobId(7)).copies[0].is_complete);

  CHECK(item_of(pair.push(pair.first, kAnn, 0)).stable == Clock(0));
  pair.replicate();
  CHECK(item_of(pair.push(pair.first, kAnn, 1)).stable == Clock(1));

  // A worker that waits is told when the image has arrived.
  DataItem settle;
  settle.kind = pb::DataItem::SETTLE;
  settle.clock = Clock(2);
  CHECK(item_of(pair.say(pair.first, kAnn, DataItems{{settle}})).stable == Clock(1));
  pair.told.clear();
  pair.replicate();
  REQUIRE(pair.told.size() == 1);
  CHECK(item_of(pair.told).kind == pb::DataItem::SETTLED);
  CHECK(item_of(pair.told).stable == Clock(2));
}

TEST_CASE("a worker that waits until its update is safe is told once others have pushed too",
          "[replication]") {
  BackupPair pair(2);
  for (const WorkerId worker : {kAnn, kBob}) {
    REQUIRE(pair.greet(pair.first, worker, 1).accepted());
    pair.open(pair.first, worker);
  }
  pair.replicate();
  (void)pair.push(pair.first, kAnn, 0);
  DataItem settle;
  settle.kind = pb::DataItem::SETTLE;
  settle.clock = Clock(1);
  CHECK(item_of(pair.say(pair.first, kAnn, DataItems{{settle}})).stable == Clock(0));
  pair.replicate();
  pair.told.clear();
  (void)pair.push(pair.first, kBob, 0);
  pair.replicate();
  const DataItem settled = item_of(pair.told);
  CHECK(settled.kind == pb::DataItem::SETTLED);
  CHECK(settled.stable == Clock(1));
}

TEST_CASE("images go to the backup in messages that a shard takes in", "[replication]") {
  BackupPair pair(1);
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  constexpr std::int64_t kSlices = 8;
  constexpr auto kElements = static_cast<std::int64_t>(SliceLayout::kSliceElements);
  pb::OpenTables requested;
  *requested.add_tables() = to_wire(make_table(0, {kSlices * kElements}));
  pair.send(pair.say(pair.first, kAnn, requested));
  pair.replicate();
  std::size_t images = 0;
  for (const DataImages& message : pair.images) {
    std::size_t bytes = 0;
    for (const ImageItem& image : message.images) {
      bytes += image.values.size() * (1 + image.states.size());
    }
    CHECK(bytes < (6UL << 20U));
    images += message.images.size();
  }
  CHECK(images == kSlices);
  CHECK(pair.images.size() > 2);
  CHECK(pair.second.report(JobId(7)).copies.at(0).is_complete);
}

TEST_CASE("an image that is not acknowledged is sent again as it was", "[replication]") {
  BackupPair pair(1, Slack(3));
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  const auto sent_at = [&](Duration at) {
    std::vector<std::uint64_t> sequences;
    for (const Outgoing& out : pair.first.take_images(TimePoint(at))) {
      for (const ImageItem& image : std::get<DataImages>(out.message.body).images) {
        sequences.push_back(image.sequence);
      }
    }
    return sequences;
  };
  using Sequences = std::vector<std::uint64_t>;
  CHECK(sent_at(Duration(0)) == Sequences{1});
  (void)pair.push(pair.first, kAnn, 0);
  CHECK(sent_at(Duration(400'000)).empty());
  CHECK(sent_at(Duration(500'000)) == Sequences{1});
  // Twice the time after each attempt, so that a slow network gets through with it.
  CHECK(sent_at(Duration(1'400'000)).empty());
  CHECK(sent_at(Duration(1'500'000)) == Sequences{1});
}

TEST_CASE("what a member that is lost has pushed goes to the backup at once", "[replication]") {
  BackupPair pair(2, Slack(3));
  pair.job.state.set_replication_interval(100);
  pair.job.state.set_revision(pair.job.state.revision() + 1);
  pair.publish();
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  pair.replicate();
  (void)pair.push(pair.first, kAnn, 0);
  const std::size_t before = pair.images.size();
  pair.replicate();
  CHECK(pair.images.size() == before);
  pair.job.state.mutable_members(0)->set_fenced(true);
  pair.job.state.set_revision(pair.job.state.revision() + 1);
  pair.publish();
  pair.replicate();
  REQUIRE(pair.images.size() == before + 1);
  CHECK(pair.images.back().images.at(0).done.at(kAnn) == Clock(1));
}

TEST_CASE("a backup that is further behind than the job allows is reported once", "[replication]") {
  BackupPair pair(1, Slack(3));
  pair.job.state.set_backup_limit_s(10);
  pair.job.state.set_revision(pair.job.state.revision() + 1);
  pair.publish();
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  const auto report_at = [&](Duration at, bool is_answered) {
    auto images = pair.first.take_images(TimePoint(at));
    if (is_answered) pair.send(std::move(images));
    return pair.first.report(JobId(7)).problems;
  };
  constexpr Duration kSecond{1'000'000};
  CHECK(report_at(1 * kSecond, false).empty());
  CHECK(report_at(5 * kSecond, false).empty());
  CHECK(report_at(9 * kSecond, false).empty());
  (void)pair.first.take_changed();
  const auto problems = report_at(12 * kSecond, false);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].choice == 1);
  CHECK(problems[0].reason == "it has not answered for 10 s");
  CHECK(pair.first.take_changed().size() == 1);
  CHECK(report_at(14 * kSecond, false).size() == 1);
  CHECK(pair.first.take_changed().empty());
  // What it answers in the end takes the complaint back.
  CHECK(report_at(18 * kSecond, true).size() == 1);
  CHECK(report_at(20 * kSecond, true).empty());
}

TEST_CASE("a process that did not run blames no backup for it", "[replication]") {
  BackupPair pair(1, Slack(3));
  pair.job.state.set_backup_limit_s(10);
  pair.job.state.set_revision(pair.job.state.revision() + 1);
  pair.publish();
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  (void)pair.first.take_images(TimePoint(Duration(1'000'000)));
  (void)pair.first.take_images(TimePoint(Duration(60'000'000)));
  CHECK(pair.first.report(JobId(7)).problems.empty());
}

TEST_CASE("a backup that has no memory for the images says so", "[replication]") {
  BackupPair pair(1, Slack(3));
  pair.second.limit_memory(std::make_shared<TableMemory>(Bytes(8)));
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  pair.replicate();
  const auto problems = pair.second.report(JobId(7)).problems;
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].shard == ShardId(0));
  CHECK_THAT(problems[0].reason, Contains("memory"));
}

TEST_CASE("an acknowledgement of an image counts from the backup alone", "[replication]") {
  BackupPair pair(1);
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  (void)pair.push(pair.first, kAnn, 0);
  const auto sent = pair.first.take_images(TimePoint());
  REQUIRE(sent.size() == 1);
  const auto replies = pair.second.handle(test::kPrimary, sent[0].message, TimePoint());
  REQUIRE(replies.size() == 1);
  (void)pair.first.handle(PeerId(99), replies[0].message, TimePoint());
  CHECK(item_of(pair.push(pair.first, kAnn, 1)).stable == Clock(0));
  (void)pair.first.handle(test::kBackup, replies[0].message, TimePoint());
  CHECK(item_of(pair.push(pair.first, kAnn, 1)).stable == Clock(1));
}

TEST_CASE("images that no primary of the job may send are not kept", "[replication]") {
  BackupPair pair(1);
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pair.open(pair.first, kAnn);
  const std::vector<Outgoing> sent = pair.first.take_images(TimePoint());
  REQUIRE(sent.size() == 1);
  const auto& good = std::get<DataImages>(sent[0].message.body);
  const auto is_kept = [&](const DataImages& images) {
    const auto replies = pair.second.handle(
        test::kPrimary, DataMessage{JobId(7), WorkerId(), Incarnation(), images}, TimePoint());
    return !replies.empty() &&
           std::get<pb::SliceImagesReply>(replies[0].message.body).kept_size() > 0;
  };
  DataImages bad = good;
  bad.term = 2;
  CHECK_FALSE(is_kept(bad));
  bad = good;
  bad.copy = 2;
  CHECK_FALSE(is_kept(bad));
  bad = good;
  bad.shard = ShardId(9);
  CHECK_FALSE(is_kept(bad));
  bad = good;
  bad.tables.clear();
  CHECK_FALSE(is_kept(bad));
  bad = good;
  bad.images[0].values = bad.images[0].values.part(0, 4);
  CHECK_FALSE(is_kept(bad));
  bad = good;
  bad.images[0].states.push_back(bad.images[0].values);
  CHECK_FALSE(is_kept(bad));
  bad = good;
  bad.images[0].slice = SliceId(9);
  CHECK_FALSE(is_kept(bad));
  CHECK(is_kept(good));
}

}  // namespace taut::server
