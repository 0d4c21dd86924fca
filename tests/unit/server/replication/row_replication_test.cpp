#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/server/replication/backup_pair.hpp"
#include "tests/unit/server/row_job.hpp"

namespace taut::server {
namespace {

using Catch::Matchers::Contains;
using test::BackupPair;
using test::item_of;
using test::kAnn;
using test::kBob;
using test::kBuckets;

/// A primary and its backup with a table by rows. Images travel as frames.
class RowPair : public BackupPair {
 public:
  explicit RowPair(int members, Slack slack = Slack(0)) : BackupPair(members, slack) {
    job.solver().set_type("Adam");
    job.solver().set_momentum(0.9F);
    job.state.set_revision(job.state.revision() + 1);
  }

  void start(Shard& host, std::uint64_t term, const std::vector<std::int64_t>& sent = {}) {
    for (const WorkerId worker : {kAnn, kBob}) {
      if (worker.value() >= static_cast<std::uint32_t>(job.state.members_size())) continue;
      REQUIRE(greet(host, worker, term).accepted());
      pb::OpenTables requested;
      *requested.add_tables() = to_wire(table);
      for (const std::int64_t clock : sent) requested.add_sent(clock);
      const auto answers = say(host, worker, requested);
      const auto& reply = std::get<pb::OpenTablesReply>(answers.at(0).message.body);
      INFO(reply.reason());
      REQUIRE(reply.accepted());
    }
  }
  void push_all(Shard& host, std::int64_t first_clock, std::int64_t end) {
    for (std::int64_t clock = first_clock; clock < end; ++clock) {
      for (const pb::Member& member : job.state.members()) {
        for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
          const DataItem item = test::row_push(table, bucket, member.worker(), clock);
          (void)say(host, WorkerId(member.worker()), DataItems{{item}});
        }
      }
    }
  }
  /// Sends the images that are due; returns their bytes.
  /// arrives  may change a message; false: it is lost
  std::uint64_t replicate_rows(const std::function<bool(DataImages&)>& arrives = {},
                               TimePoint now = TimePoint()) {
    std::uint64_t bytes = 0;
    for (const Outgoing& out : first.take_images(now)) {
      const Message frames = encode(out.message);
      for (std::size_t i = 1; i < frames.frames.size(); ++i) bytes += frames.frames[i].size();
      auto decoded = decode_data(frames);
      INFO((decoded ? std::string() : decoded.error().message));
      REQUIRE(decoded.has_value());
      auto& sent = std::get<DataImages>(decoded.value().body);
      images.push_back(sent);
      if (arrives && !arrives(sent)) continue;
      for (Outgoing& reply : second.handle(test::kPrimary, decoded.value(), TimePoint())) {
        for (Outgoing& told_now : first.handle(test::kBackup, reply.message, TimePoint())) {
          told.push_back(std::move(told_now));
        }
      }
    }
    return bytes;
  }
  std::vector<float> values(Shard& host) {
    std::vector<float> all;
    for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
      const DataItem item = test::row_request(table, bucket, pb::DataItem::SNAPSHOT);
      const DataItem answer = item_of(say(host, kAnn, DataItems{{item}}));
      REQUIRE(answer.kind == pb::DataItem::SNAPSHOT_VALUE);
      const auto own = test::floats_of(answer.payload);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }
  [[nodiscard]] bool is_complete() {
    const auto copies = second.report(JobId(7)).copies;
    return !copies.empty() && copies[0].is_complete;
  }

  TableSpec table = test::row_table(0);
};

/// What a shard without a backup has of the same updates.
std::vector<float> undisturbed(std::int64_t clocks) {
  RowPair pair(2);
  pair.publish();
  pair.start(pair.first, 1);
  pair.push_all(pair.first, 0, clocks);
  return pair.values(pair.first);
}

}  // namespace

TEST_CASE("a backup that takes a table by rows over has the rows of the undisturbed run",
          "[replication][rows]") {
  const std::int64_t interval = GENERATE(1, 3);
  const bool loses = GENERATE(false, true);
  CAPTURE(interval, loses);
  RowPair pair(2);
  pair.job.state.set_replication_interval(static_cast<std::uint32_t>(interval));
  pair.publish();
  pair.start(pair.first, 1);
  std::int64_t now = 0;
  std::uint64_t messages = 0;
  const auto arrives = [&](DataImages&) { return !loses || ++messages % 3 != 0; };
  for (std::int64_t clock = 0; clock < 20; ++clock) {
    pair.push_all(pair.first, clock, clock + 1);
    pair.replicate_rows(arrives, TimePoint(Duration(now += 40'000'000)));
  }
  REQUIRE(pair.is_complete());
  // The last clocks are not with the backup: workers repeat what they keep.
  pair.push_all(pair.first, 20, 22);
  pair.take_over();
  pair.start(pair.second, 2, std::vector<std::int64_t>(kBuckets, 22));
  CHECK(pair.second.report(JobId(7)).settling);
  pair.push_all(pair.second, 0, 22);
  CHECK_FALSE(pair.second.report(JobId(7)).settling);
  CHECK(test::same_bits(pair.values(pair.second), undisturbed(22)));
  // What is dropped from now on is the same too.
  pair.push_all(pair.second, 22, 40);
  CHECK(test::same_bits(pair.values(pair.second), undisturbed(40)));
}

TEST_CASE("an image of a bucket has only the rows that were updated since the last one",
          "[replication][rows]") {
  RowPair pair(2);
  pair.publish();
  pair.start(pair.first, 1);
  pair.replicate_rows();
  CHECK(pair.is_complete());
  std::uint64_t last = 0;
  for (std::int64_t clock = 0; clock < 30; ++clock) {
    pair.push_all(pair.first, clock, clock + 1);
    pair.images.clear();
    last = pair.replicate_rows();
    std::uint64_t rows = 0;
    for (const DataImages& message : pair.images) {
      for (const ImageItem& image : message.images) {
        CHECK(image.base == image.sequence - 1);
        rows += image.rows;
      }
    }
    // Some of the 60 rows that two workers name are the same.
    CHECK(rows <= 60);
    CHECK(rows >= 40);
  }
  const std::uint64_t row = 16 + 3 * test::kWidth * sizeof(float);
  CHECK(last <= 60 * row + 60 * 16);
}

TEST_CASE("a backup that lacks what an image continues is sent all rows", "[replication][rows]") {
  RowPair pair(2);
  pair.publish();
  pair.start(pair.first, 1);
  pair.push_all(pair.first, 0, 3);
  pair.replicate_rows();
  REQUIRE(pair.is_complete());
  // It has restarted, and was chosen as the same copy.
  Shard anew(ShardId(1), pair.pool);
  (void)anew.set_job(pair.job.view());
  pair.push_all(pair.first, 3, 4);
  const auto to_anew = [&](TimePoint now) {
    bool is_whole = false;
    for (const Outgoing& out : pair.first.take_images(now)) {
      DataMessage message = out.message;
      for (const ImageItem& image : std::get<DataImages>(message.body).images) {
        is_whole = is_whole || image.base == 0;
      }
      std::get<DataImages>(message.body).tables = {to_wire(pair.table)};
      for (Outgoing& reply : anew.handle(test::kPrimary, message, now)) {
        (void)pair.first.handle(test::kBackup, reply.message, now);
      }
    }
    return is_whole;
  };
  CHECK_FALSE(to_anew(TimePoint(Duration(1'000'000))));
  CHECK_FALSE(anew.report(JobId(7)).copies.at(0).is_complete);
  CHECK(to_anew(TimePoint(Duration(2'000'000))));
  CHECK(anew.report(JobId(7)).copies.at(0).is_complete);
}

TEST_CASE("logged updates of rows are taken again before anything else", "[replication][rows]") {
  RowPair pair(2);
  pair.job.state.set_logs_updates(true);
  pair.publish();
  pair.start(pair.first, 1);
  pair.replicate_rows();
  REQUIRE(pair.is_complete());
  const auto only_logged = [](DataImages& sent) {
    sent.images.clear();
    return true;
  };
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    pair.push_all(pair.first, clock, clock + 1);
    (void)pair.replicate_rows(only_logged, TimePoint(Duration(clock)));
  }
  pair.take_over();
  pair.start(pair.second, 2, std::vector<std::int64_t>(kBuckets, 0));
  CHECK(test::same_bits(pair.values(pair.second), undisturbed(3)));
}

TEST_CASE("logged updates of rows have the room that a shard has reserved for them",
          "[replication][rows][hostile]") {
  RowPair pair(2);
  pair.table.rows->clock_rows = 30;  // as many as a member updates
  pair.job.state.set_logs_updates(true);
  pair.publish();
  pair.start(pair.first, 1);
  pair.replicate_rows();
  REQUIRE(pair.is_complete());
  // What is logged is answered later.
  const auto is_logged = [&](WorkerId worker, std::uint32_t bucket, std::int64_t clock) {
    const DataItem push = test::row_push(pair.table, bucket, worker.value(), clock);
    const auto answers = pair.say(pair.first, worker, DataItems{{push}});
    if (!answers.empty()) CHECK(item_of(answers).refusal == pb::DataItem::HELD);
    return answers.empty();
  };
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) CHECK(is_logged(kAnn, bucket, 0));
  const DataItem again = test::row_push(pair.table, 0, kAnn.value(), 0);
  CHECK(item_of(pair.say(pair.first, kAnn, DataItems{{again}})).kind == pb::DataItem::PARKED);
  // As much of her next clock as leaves room for that of the others.
  std::uint32_t ahead = 0;
  while (ahead < kBuckets && is_logged(kAnn, ahead, 1)) ++ahead;
  CHECK(ahead < kBuckets);
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) CHECK(is_logged(kBob, bucket, 0));
  // Once both count, there is room for it.
  (void)pair.replicate_rows();
  for (std::uint32_t bucket = ahead; bucket < kBuckets; ++bucket) CHECK(is_logged(kAnn, bucket, 1));
}

TEST_CASE("logged updates of rows wait for images once a backup has what it has reserved for them",
          "[replication][rows][hostile]") {
  constexpr std::int64_t kClocks = 16;
  RowPair pair(2);
  pair.table.rows->clock_rows = 30;  // as many as a member updates
  pair.job.state.set_logs_updates(true);
  pair.job.state.set_replication_interval(4);
  pair.publish();
  pair.start(pair.first, 1);
  pair.replicate_rows();
  REQUIRE(pair.is_complete());
  pair.images.clear();
  // The backup gets what is logged, and no image.
  const auto only_logged = [](DataImages& sent) {
    sent.images.clear();
    return true;
  };
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    pair.push_all(pair.first, clock, clock + 1);
    (void)pair.replicate_rows(only_logged, TimePoint(Duration(clock)));
  }
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::int64_t>, std::uint64_t> logged;
  for (const DataImages& message : pair.images) {
    for (const LoggedUpdate& one : message.logged) {
      logged[{one.slice.value(), one.worker.value(), one.update.clock.value()}] =
          RowAllowance::bytes_of(one.update);
    }
  }
  std::uint64_t kept = 0;
  for (const auto& [of, bytes] : logged) kept += bytes;
  CHECK(kept <= RowAllowance::max_logged_bytes(pair.table, kBuckets, 2));
  // No fewer than may count without an image.
  CHECK(2 * kept >= RowAllowance::max_logged_bytes(pair.table, kBuckets, 2));
  CHECK(pair.first.report(JobId(7)).min_version < Clock(kClocks));

  // With images everything counts, of what members send again.
  for (std::int64_t round = 1; round <= 40; ++round) {
    pair.push_all(pair.first, 0, kClocks);
    (void)pair.replicate_rows({}, TimePoint(Duration(round * 40'000'000)));
  }
  CHECK(pair.first.report(JobId(7)).min_version == Clock(kClocks));
  CHECK(test::same_bits(pair.values(pair.first), undisturbed(kClocks)));
  pair.take_over();
  pair.start(pair.second, 2, std::vector<std::int64_t>(kBuckets, 0));
  CHECK(test::same_bits(pair.values(pair.second), undisturbed(kClocks)));
}

TEST_CASE("a backup keeps no more logged updates of rows than it has reserved memory for",
          "[replication][rows][hostile]") {
  RowPair pair(1);
  pair.table.rows->clock_rows = 30;
  pair.job.state.set_logs_updates(true);
  pair.publish();
  pair.start(pair.first, 1);
  pair.replicate_rows();
  REQUIRE(pair.is_complete());
  const DataItem push = test::row_push(pair.table, 1, 0, 0);
  const auto is_kept = [&](std::uint64_t number) {
    LoggedUpdate one{push.table, push.slice, kAnn, number, push.count, update_of(push)};
    one.update.clock = Clock(static_cast<std::int64_t>(number));
    DataImages images;
    images.shard = ShardId(0);
    images.term = 1;
    images.copy = 1;
    images.logged.push_back(std::move(one));
    const auto replies = pair.second.handle(
        test::kPrimary, DataMessage{JobId(7), WorkerId(), Incarnation(), images}, TimePoint());
    return !replies.empty() &&
           std::get<pb::SliceImagesReply>(replies[0].message.body).logged_size() > 0;
  };
  std::uint64_t kept = 0;
  while (kept < 1000 && is_kept(kept + 1)) ++kept;
  const std::uint64_t bytes = RowAllowance::bytes_of(update_of(push));
  const std::uint64_t most = RowAllowance::max_logged_bytes(pair.table, kBuckets, 1);
  CHECK(kept == most / bytes);
  // Those that it has are acknowledged again.
  CHECK(is_kept(1));
  CHECK_FALSE(is_kept(kept + 2));
}

TEST_CASE("a backup that has no memory for logged updates of rows says so",
          "[replication][rows][memory]") {
  const bool logs = GENERATE(false, true);
  CAPTURE(logs);
  RowPair pair(1);
  pair.table.rows->clock_rows = 30;
  pair.job.state.set_logs_updates(logs);
  const std::uint64_t of_primary = even_needs({&pair.table, 1}, *pair.job.view()).at(0).bytes;
  pair.second.limit_memory(std::make_shared<TableMemory>(Bytes(of_primary)));
  pair.publish();
  pair.start(pair.first, 1);
  pair.replicate_rows();
  CHECK(pair.is_complete() == !logs);
  const auto problems = pair.second.report(JobId(7)).problems;
  REQUIRE(problems.size() == (logs ? 1U : 0U));
  if (logs) CHECK_THAT(problems[0].reason, Contains("table \"table0\" needs"));
}

TEST_CASE("a logged update of rows that are not the bucket's is not kept", "[replication][rows]") {
  RowPair pair(1);
  pair.job.state.set_logs_updates(true);
  pair.publish();
  pair.start(pair.first, 1);
  pair.replicate_rows();
  REQUIRE(pair.is_complete());
  const auto is_kept = [&](const DataItem& push) {
    DataImages images;
    images.shard = ShardId(0);
    images.term = 1;
    images.copy = 1;
    images.logged.push_back({push.table, push.slice, kAnn, 1, push.count, update_of(push)});
    const auto replies = pair.second.handle(
        test::kPrimary, DataMessage{JobId(7), WorkerId(), Incarnation(), images}, TimePoint());
    return !replies.empty() &&
           std::get<pb::SliceImagesReply>(replies[0].message.body).logged_size() > 0;
  };
  const DataItem sound = test::row_push(pair.table, 1, 0, 0);
  REQUIRE(sound.rows > 1);
  DataItem push = sound;
  push.slice = SliceId(2);
  CHECK_FALSE(is_kept(push));
  push = sound;
  push.count = 1;
  CHECK_FALSE(is_kept(push));
  push = sound;
  push.by_rows = false;
  CHECK_FALSE(is_kept(push));
  push = sound;
  std::vector<std::byte> bytes(sound.payload.bytes().begin(), sound.payload.bytes().end());
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 8);
  push.payload = Frame::copy_of(bytes);
  CHECK_FALSE(is_kept(push));
  CHECK(is_kept(sound));
}

TEST_CASE("a table whose buckets a backup could not take is refused when it is opened",
          "[replication][rows]") {
  RowPair pair(1);
  pair.publish();
  pair.table.shape = {100'000'000, 16};
  REQUIRE(pair.greet(pair.first, kAnn, 1).accepted());
  pb::OpenTables requested;
  *requested.add_tables() = to_wire(pair.table);
  pair.table.rows = RowTable{16, 0, 0};
  requested.clear_tables();
  *requested.add_tables() = to_wire(pair.table);
  const auto answers = pair.say(pair.first, kAnn, requested);
  const auto& reply = std::get<pb::OpenTablesReply>(answers.at(0).message.body);
  CHECK_FALSE(reply.accepted());
  CHECK_THAT(reply.reason(), Contains("it needs 414 buckets"));
}

}  // namespace taut::server
