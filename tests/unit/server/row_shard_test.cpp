// Items of tables that are kept by rows at a shard: what it refuses.
#include <cstring>

#include "common/ssp/row_buckets.hpp"
#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/unit/server/job_maker.hpp"

using Catch::Matchers::Contains;

namespace taut::server {
namespace {

using test::JobMaker;
using test::kPeer;

/// A shard that has opened one table by rows and a dense one, and a member that speaks to it.
class Member {
 public:
  explicit Member(std::int64_t width = 2, std::uint32_t buckets = 2,
                  JobMaker job = JobMaker(1, Slack(1)))
      : job_(std::move(job)) {
    (void)shard_.set_job(job_.view());
    pb::DataHello hello;
    hello.set_wire_version(kWireVersion);
    hello.set_job_hash(job_.hash());
    send(hello);
    table = test::make_table(0, {1 << 20, width});
    table.filler = {math::Filler::Kind::kConstant, 1.0F, 0.0F};
    table.rows = RowTable{buckets, 1000, 0};
    pb::OpenTables open;
    *open.add_tables() = to_wire(table);
    *open.add_tables() = to_wire(test::make_table(1, {4}));
    const auto opened = send(open);
    REQUIRE(std::get<pb::OpenTablesReply>(opened.at(0).message.body).accepted());
  }

  template <class Body>
  std::vector<Outgoing> send(Body body, WorkerId worker = WorkerId(0)) {
    DataMessage message{JobId(7), worker, job_.incarnation(worker), {}};
    message.body = std::move(body);
    return shard_.handle(kPeer, std::move(message), TimePoint());
  }
  std::vector<DataItem> ask(std::vector<DataItem> items) {
    std::vector<DataItem> answers;
    for (Outgoing& out : send(DataItems{std::move(items)})) {
      for (DataItem& one : std::get<DataItems>(out.message.body).items) {
        answers.push_back(std::move(one));
      }
    }
    return answers;
  }
  /// rows of the bucket, of which `wrong` may be others
  [[nodiscard]] DataItem item(DataItem::Kind kind, const std::vector<std::uint64_t>& rows,
                              std::uint32_t bucket = 0) const {
    DataItem result;
    result.kind = kind;
    result.slice = SliceId(bucket);
    result.offset = bucket;
    result.count = table.width();
    result.by_rows = true;
    result.rows = static_cast<std::uint32_t>(rows.size());
    const std::size_t floats = kind == pb::DataItem::PUSH ? rows.size() * table.width() : 0;
    std::string bytes(rows.size() * sizeof(std::uint64_t) + floats * sizeof(float), '\0');
    if (!rows.empty()) std::memcpy(bytes.data(), rows.data(), rows.size() * sizeof(std::uint64_t));
    result.payload = Frame::copy_of(bytes);
    return result;
  }
  /// The first rows of a bucket.
  [[nodiscard]] std::vector<std::uint64_t> rows_of(std::uint32_t bucket, std::size_t count) const {
    std::vector<std::uint64_t> rows;
    for (std::uint64_t row = 0; rows.size() < count; ++row) {
      if (bucket_of(row, table.rows->buckets) == bucket) rows.push_back(row);
    }
    return rows;
  }
  std::string refusal_of(DataItem item) {
    const auto answers = ask({std::move(item)});
    REQUIRE(answers.size() == 1);
    REQUIRE(answers[0].kind == pb::DataItem::REFUSED);
    CHECK(answers[0].refusal == pb::DataItem::BAD_RANGE);
    return answers[0].reason;
  }

  TableSpec table;

 private:
  JobMaker job_;
  BufferPool pool_{Bytes(256ULL << 20U)};
  Shard shard_{ShardId(0), pool_};
};

}  // namespace

TEST_CASE("items that do not fit a table by rows are refused, and change nothing",
          "[shard][rows]") {
  Member member;
  const auto rows = member.rows_of(0, 3);
  CHECK_THAT(member.refusal_of(member.item(pb::DataItem::PUSH, {rows[1], rows[0]})),
             Contains("do not ascend"));
  CHECK_THAT(member.refusal_of(member.item(pb::DataItem::PUSH, {rows[0], rows[0]})),
             Contains("do not ascend"));
  CHECK_THAT(member.refusal_of(member.item(pb::DataItem::PUSH, member.rows_of(1, 1))),
             Contains("is not in bucket 0"));
  CHECK_THAT(member.refusal_of(member.item(pb::DataItem::READ, {1 << 20})),
             Contains("has 1048576 rows, and row 1048576"));
  DataItem wide = member.item(pb::DataItem::READ, rows);
  wide.count = 3;
  CHECK_THAT(member.refusal_of(wide), Contains("a row of table 0 has 2 values, not 3"));
  DataItem dense = member.item(pb::DataItem::READ, {});
  dense.by_rows = false;
  CHECK_THAT(member.refusal_of(dense), Contains("table 0 is kept by rows, and the item is not"));
  DataItem to_dense = member.item(pb::DataItem::READ, {});
  to_dense.table = TableId(1);
  CHECK_THAT(member.refusal_of(to_dense), Contains("table 1 is not kept by rows, and the item is"));
  DataItem follow = member.item(pb::DataItem::FOLLOW, {});
  follow.by_rows = false;
  CHECK_THAT(member.refusal_of(follow), Contains("cannot be followed"));

  const auto taken = member.ask({member.item(pb::DataItem::PUSH, {rows[0], rows[2]})});
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].kind == pb::DataItem::ACK);
  CHECK(taken[0].done == Clock(1));
}

TEST_CASE("a push of rows that its sender changes afterwards is what was checked",
          "[shard][rows]") {
  // Held until the other member has pushed, as in BSP; its memory may be the sender's.
  Member member(2, 2, JobMaker(2, Slack(0)));
  const auto rows = member.rows_of(0, 2);
  DataItem push = member.item(pb::DataItem::PUSH, {rows[0]});
  BufferPool senders{Bytes(1 << 20)};
  const Buffer memory = senders.acquire(push.payload.size());
  const std::vector<float> gradient{2, 4};
  std::memcpy(memory.data(), rows.data(), sizeof(std::uint64_t));
  std::memcpy(memory.data() + sizeof(std::uint64_t), gradient.data(), 2 * sizeof(float));
  push.payload = Frame(memory).part(0, push.payload.size());
  REQUIRE(member.ask({push}).at(0).kind == pb::DataItem::ACK);
  std::memcpy(memory.data(), &rows[1], sizeof(std::uint64_t));
  (void)member.send(DataItems{{member.item(pb::DataItem::PUSH, {})}}, WorkerId(1));
  const auto values = member.ask({member.item(pb::DataItem::SNAPSHOT, {rows[0], rows[1]})});
  REQUIRE(values.at(0).kind == pb::DataItem::SNAPSHOT_VALUE);
  // From 1 by rate 0.5 and half of the gradient.
  CHECK(test::floats_of(values[0].payload) == std::vector<float>{0.5F, 0, 1, 1});
}

TEST_CASE("a message that requests more rows than a shard answers at once gets the first",
          "[shard][rows]") {
  constexpr std::int64_t kWidth = 65536;
  Member member(kWidth, 1);
  const auto rows = member.rows_of(0, kMaxRowValues / kWidth);
  const DataItem all = member.item(pb::DataItem::SNAPSHOT, rows);
  const auto answers = member.ask({all, all, all, all, member.item(pb::DataItem::SNAPSHOT, {0})});
  REQUIRE(answers.size() == 5);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(answers[i].kind == pb::DataItem::SNAPSHOT_VALUE);
    CHECK(answers[i].payload.size() == kMaxRowValues * sizeof(float));
  }
  CHECK(answers[4].kind == pb::DataItem::PARKED);
}

}  // namespace taut::server
