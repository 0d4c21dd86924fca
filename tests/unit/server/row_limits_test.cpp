// What members make a shard keep of tables by rows, in addition to the rows: it is bounded whatever
// they send, and V rises all the same.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "common/system/memory.hpp"
#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/unit/server/row_job.hpp"

using Catch::Matchers::Contains;

namespace taut::server {
namespace {

using test::JobMaker;

/// A shard with one table by rows, and members that send it what they like.
class Members {
 public:
  Members(TableSpec table, JobMaker job, std::uint64_t memory_limit = 0)
      : job_(std::move(job)), table_(std::move(table)) {
    if (memory_limit > 0) limit_ = std::make_shared<TableMemory>(Bytes(memory_limit));
    if (limit_) shard_.limit_memory(limit_);
    (void)shard_.set_job(job_.view());
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job_.hash());
    for (int i = 0; i < job_.state.members_size(); ++i) {
      (void)say(static_cast<std::uint32_t>(i), hello);
    }
  }
  /// Why it is refused; empty if it is not.
  std::string open() {
    pb::OpenTables open;
    *open.add_tables() = to_wire(table_);
    const auto answers = say(0, open);
    return std::get<pb::OpenTablesReply>(answers.at(0).message.body).reason();
  }
  void order(std::int64_t clock) {
    job_.state.mutable_checkpoint()->set_number(1);
    job_.state.mutable_checkpoint()->set_clock(clock);
    (void)shard_.set_job(job_.view());
  }

  template <class Body>
  std::vector<Outgoing> say(std::uint32_t worker, Body body) {
    return shard_.handle(PeerId(1 + worker),
                         DataMessage{JobId(7), WorkerId(worker), job_.incarnation(WorkerId(worker)),
                                     std::move(body)},
                         TimePoint());
  }
  /// All answers to one item, of which that of the sender is the first.
  std::vector<DataItem> send(std::uint32_t worker, DataItem item) {
    std::vector<DataItem> answers;
    for (Outgoing& out : say(worker, DataItems{{std::move(item)}})) {
      for (DataItem& one : std::get<DataItems>(out.message.body).items) {
        const bool is_own = out.to == PeerId(1 + worker);
        answers.insert(is_own ? answers.begin() : answers.end(), std::move(one));
      }
    }
    return answers;
  }
  /// An item with the first rows of a bucket.
  DataItem item(DataItem::Kind kind, std::uint32_t bucket, std::int64_t clock, std::size_t rows) {
    const auto& all = rows_of(bucket);
    return item(kind, bucket, clock, std::vector(all.begin(), all.begin() + std::ptrdiff_t(rows)));
  }
  /// Overload for these rows.
  [[nodiscard]] DataItem item(DataItem::Kind kind, std::uint32_t bucket, std::int64_t clock,
                              const std::vector<std::uint64_t>& named) const {
    const std::size_t rows = named.size();
    const bool is_push = kind == pb::DataItem::PUSH;
    DataItem item;
    item.kind = kind;
    item.slice = SliceId(bucket);
    item.offset = bucket;
    item.count = table_.width();
    item.clock = Clock(clock);
    item.by_rows = true;
    item.rows = static_cast<std::uint32_t>(rows);
    item.payload =
        test::row_payload(named, std::vector<float>(is_push ? rows * table_.width() : 0, 1.0F));
    return item;
  }
  std::vector<std::uint64_t>& rows_of(std::uint32_t bucket) {
    if (rows_.empty()) {
      for (std::uint64_t row = 0; row < static_cast<std::uint64_t>(table_.shape[0]); ++row) {
        rows_[bucket_of(row, table_.rows->buckets)].push_back(row);
      }
    }
    return rows_[bucket];
  }
  [[nodiscard]] const ShardQueues& queues() const { return shard_.queues(); }
  std::vector<ShardCapture> captures() { return shard_.take_captures(); }
  [[nodiscard]] const TableSpec& table() const { return table_; }

 private:
  BufferPool pool_{Bytes(0)};
  std::shared_ptr<TableMemory> limit_;
  Shard shard_{ShardId(0), pool_};
  JobMaker job_;
  TableSpec table_;
  std::map<std::uint32_t, std::vector<std::uint64_t>> rows_;
};

TableSpec table_of(RowTable rows, std::int64_t all = 1 << 16, std::int64_t width = 64) {
  TableSpec table = test::make_table(0, {all, width});
  table.filler = {math::Filler::Kind::kConstant, 1.0F, 0.0F};
  table.rows = rows;
  return table;
}

constexpr std::uint32_t kManyBuckets = 32;
constexpr std::size_t kClockRows = 1000;

}  // namespace

TEST_CASE("members that push all they can keep the shard within its bound, and V rises",
          "[shard][rows][hostile]") {
  const TableSpec table = table_of({.buckets = kManyBuckets, .clock_rows = kClockRows});
  Members members(table, JobMaker(3));
  REQUIRE(members.open().empty());
  members.rows_of(0);
  const std::uint64_t most = RowAllowance::max_bytes(table, kManyBuckets, 3);
  [[maybe_unused]] const std::uint64_t before = resident_memory().value();
  std::uint64_t sent = 0;
  std::uint64_t kept = 0;
  std::map<DataItem::Refusal, int> refused;
  // Members 1 and 2 send as many rows as an item may have, in each bucket and ahead of member 0.
  for (std::int64_t clock = 0; clock < 6; ++clock) {
    for (std::uint32_t bucket = 0; bucket < kManyBuckets; ++bucket) {
      for (const std::uint32_t worker : {1U, 2U}) {
        const DataItem push = members.item(pb::DataItem::PUSH, bucket, clock, kClockRows);
        sent += push.payload.size();
        const DataItem answer = members.send(worker, push).at(0);
        if (answer.kind == pb::DataItem::REFUSED) ++refused[answer.refusal];
        kept = std::max(kept, members.queues().held_bytes);
      }
    }
  }
  CHECK(refused[pb::DataItem::BAD_RANGE] > 0);
  CHECK(sent > 20 * most);
  CHECK(kept <= most);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep what is freed
  constexpr std::uint64_t kOther = 8UL << 20U;  // what this process does otherwise
  CHECK(resident_memory().value() <= before + most + kOther);
#endif

  // What V waits for is taken: they end the clock with what a batch can have.
  for (std::uint32_t bucket = 0; bucket < kManyBuckets; ++bucket) {
    for (const std::uint32_t worker : {0U, 1U, 2U}) {
      const auto answers = members.send(worker, members.item(pb::DataItem::PUSH, bucket, 0, 3));
      CHECK(answers.at(0).kind == pb::DataItem::ACK);
    }
    const auto read = members.send(0, members.item(pb::DataItem::READ, bucket, 1, 1));
    CHECK(read.at(0).kind == pb::DataItem::VALUE);
  }
}

TEST_CASE("updates ahead of others wait outside while the lowest V's are taken",
          "[shard][rows][hostile]") {
  const TableSpec table = table_of({.buckets = 4, .clock_rows = 8}, 1 << 12, 512);
  Members members(table, JobMaker(2));
  REQUIRE(members.open().empty());
  const auto push = [&](std::uint32_t worker, std::uint32_t bucket, std::int64_t clock,
                        std::size_t rows) {
    return members.send(worker, members.item(pb::DataItem::PUSH, bucket, clock, rows)).at(0);
  };
  // A whole clock of member 1, then its next one.
  for (std::uint32_t bucket = 0; bucket < 4; ++bucket) {
    REQUIRE(push(1, bucket, 0, 2).kind == pb::DataItem::ACK);
  }
  const DataItem early = push(1, 0, 1, 2);
  REQUIRE(early.kind == pb::DataItem::REFUSED);
  CHECK(early.refusal == pb::DataItem::HELD);
  // Member 0 ends clock 0 bucket by bucket; clock 1 is at the lowest V only after the last.
  for (std::uint32_t bucket = 0; bucket < 4; ++bucket) {
    REQUIRE(push(0, bucket, 0, 2).kind == pb::DataItem::ACK);
    CHECK(push(1, 0, 1, 2).kind == pb::DataItem::ACK);
  }
  for (std::uint32_t bucket = 1; bucket < 4; ++bucket) {
    CHECK(push(1, bucket, 1, 2).kind == pb::DataItem::ACK);
  }
}

TEST_CASE("an item of more rows than its table's clock_rows is refused", "[shard][rows]") {
  Members members(table_of({.buckets = 4, .clock_rows = 5}), JobMaker(1));
  REQUIRE(members.open().empty());
  for (const auto kind : {pb::DataItem::PUSH, pb::DataItem::READ}) {
    const DataItem answer = members.send(0, members.item(kind, 0, 0, 6)).at(0);
    REQUIRE(answer.kind == pb::DataItem::REFUSED);
    CHECK(answer.refusal == pb::DataItem::BAD_RANGE);
    CHECK(answer.reason == "the item names 6 rows of table 0, whose clock_rows are 5");
  }
  // A test's batch may be larger.
  CHECK(members.send(0, members.item(pb::DataItem::SNAPSHOT, 0, 0, 6)).at(0).kind ==
        pb::DataItem::SNAPSHOT_VALUE);
}

TEST_CASE("reads beyond what a batch can name are not kept, and answered when sent again",
          "[shard][rows][hostile]") {
  Members members(table_of({.buckets = kManyBuckets, .clock_rows = kClockRows}), JobMaker(2));
  REQUIRE(members.open().empty());
  for (std::uint32_t bucket = 0; bucket < kManyBuckets; ++bucket) {
    REQUIRE(members.send(0, members.item(pb::DataItem::PUSH, bucket, 0, 1)).at(0).kind ==
            pb::DataItem::ACK);
  }
  const auto read = [&](std::uint32_t bucket) {
    return members.send(0, members.item(pb::DataItem::READ, bucket, 1, kClockRows)).at(0);
  };
  for (std::uint32_t bucket = 0; bucket < kManyBuckets; ++bucket) {
    CHECK(read(bucket).kind == pb::DataItem::PARKED);
  }
  // Two of 32 have room, each as long as all that a batch names; a repetition takes its place.
  CHECK(members.queues().parked_reads == 2);
  CHECK(read(0).kind == pb::DataItem::PARKED);
  CHECK(members.queues().parked_reads == 2);
  std::size_t released = 0;
  for (std::uint32_t bucket = 0; bucket < kManyBuckets; ++bucket) {
    released += members.send(1, members.item(pb::DataItem::PUSH, bucket, 0, 1)).size() - 1;
  }
  CHECK(released == 2);
  CHECK(members.queues().parked_reads == 0);
  CHECK(read(5).kind == pb::DataItem::VALUE);
}

TEST_CASE("rows are dropped by the clocks that all members have pushed, not by one that is ahead",
          "[shard][rows]") {
  Members members(table_of({.buckets = 1, .idle_clocks = 5}, 64, 1), JobMaker(2, Slack(100)));
  REQUIRE(members.open().empty());
  const auto push = [&](std::uint32_t worker, std::int64_t clock,
                        const std::vector<std::uint64_t>& rows) {
    REQUIRE(members.send(worker, members.item(pb::DataItem::PUSH, 0, clock, rows)).at(0).kind ==
            pb::DataItem::ACK);
  };
  // Member 1 is 20 clocks ahead when member 0 updates row 7.
  for (std::int64_t clock = 0; clock < 20; ++clock) push(1, clock, {3});
  push(0, 0, {7});
  for (std::int64_t clock = 20; clock < 40; ++clock) push(1, clock, {3});
  CHECK(members.queues().rows == 2);
  for (std::int64_t clock = 1; clock < 5; ++clock) push(0, clock, {});
  push(1, 40, {3});
  CHECK(members.queues().rows == 2);
  // Both have passed five clocks without it.
  push(0, 5, {});
  CHECK(members.queues().rows == 1);
  CHECK(members.queues().dropped_rows == 1);
}

TEST_CASE("a table by rows is refused where its members' updates have no memory",
          "[shard][rows][memory]") {
  const TableSpec small = table_of({.buckets = 4, .max_rows = 10, .clock_rows = 10});
  const TableSpec large = table_of({.buckets = 4, .max_rows = 10, .clock_rows = 10'000});
  constexpr std::uint64_t kLimit = 4UL << 20U;
  CHECK(Members(small, JobMaker(3), kLimit).open().empty());
  CHECK_THAT(Members(large, JobMaker(3), kLimit).open(),
             Contains("table \"table0\" needs") && Contains("4194304 are left"));
  // Not those that there are now, but those that the job may have.
  JobMaker grows(1);
  grows.state.mutable_definition()->set_workers(300);
  CHECK_THAT(Members(small, grows, kLimit).open(), Contains("table \"table0\" needs"));
}

TEST_CASE("a backup reserves what is logged of a table by rows", "[rows][memory]") {
  const std::vector<TableSpec> tables{table_of({.buckets = 4, .clock_rows = 1000})};
  const SliceLayout layout(tables, std::vector<ShardId>{ShardId(0)});
  const auto needs = [&](bool logs, HostRole role) {
    JobMaker job(2);
    job.state.set_logs_updates(logs);
    return needs_at(ShardId(0), layout, tables, *job.view(), role).at(0).bytes;
  };
  const std::uint64_t primary = needs(true, HostRole::kPrimary);
  CHECK(needs(false, HostRole::kPrimary) == primary);
  CHECK(needs(false, HostRole::kBackup) == primary);
  CHECK(needs(true, HostRole::kBackup) == primary - RowAllowance::max_bytes(tables[0], 4, 2) +
                                              RowAllowance::max_logged_bytes(tables[0], 4, 2));
}

TEST_CASE("rows wait for a checkpoint that writes them where there is no memory for copies",
          "[shard][rows][memory][checkpoint]") {
  const TableSpec table = table_of({.buckets = 2, .clock_rows = 8}, 1 << 12, 16);
  const std::vector<TableSpec> tables{table};
  const std::vector<ShardId> shards{ShardId(0)};
  const auto needs = needs_at(ShardId(0), SliceLayout(tables, shards), tables, *JobMaker(1).view());
  const std::uint64_t bytes = needs.at(0).bytes;
  for (const bool has_room : {false, true}) {
    CAPTURE(has_room);
    Members members(table, JobMaker(1), has_room ? 3 * bytes : bytes);
    REQUIRE(members.open().empty());
    const auto push = [&](std::uint32_t bucket, std::int64_t clock) {
      return members.send(0, members.item(pb::DataItem::PUSH, bucket, clock, 4)).at(0);
    };
    members.order(1);
    REQUIRE(push(0, 0).kind == pb::DataItem::ACK);
    REQUIRE(push(1, 0).kind == pb::DataItem::ACK);
    std::vector<ShardCapture> captures = members.captures();
    REQUIRE(captures.size() == 1);
    REQUIRE_FALSE(captures[0].missed);
    const DataItem meanwhile = push(0, 1);
    if (has_room) {
      CHECK(meanwhile.kind == pb::DataItem::ACK);
      continue;
    }
    REQUIRE(meanwhile.kind == pb::DataItem::REFUSED);
    CHECK(meanwhile.refusal == pb::DataItem::HELD);
    CHECK(meanwhile.reason == "a checkpoint is writing the rows");
    // Bucket 0 is written, bucket 1 is not.
    std::erase_if(captures[0].slices,
                  [](const SliceImage& image) { return image.place.slice == SliceId(0); });
    CHECK(push(0, 1).kind == pb::DataItem::ACK);
    CHECK(push(1, 1).kind == pb::DataItem::REFUSED);
    captures.clear();
    CHECK(push(1, 1).kind == pb::DataItem::ACK);
  }
}

}  // namespace taut::server
