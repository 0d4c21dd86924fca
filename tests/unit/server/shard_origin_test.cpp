#include "proto/wire_version.hpp"
#include "server/shard.hpp"
#include "tests/unit/server/job_maker.hpp"

using Catch::Matchers::Contains;

namespace taut::server {
namespace {

using test::JobMaker;
using test::kPeer;

template <class Body>
Body only(const std::vector<Outgoing>& out) {
  REQUIRE(out.size() == 1);
  auto message = decode_data(encode(out[0].message));
  REQUIRE(message.has_value());
  REQUIRE(std::holds_alternative<Body>(message.value().body));
  return std::get<Body>(message.value().body);
}

/// Element i is i + 0.5; a file named "missing" does not exist, and the process ends while it reads
/// one named "long".
class HalfValues final : public WeightsSource {
 public:
  Result<void> read(const TensorPlace& place, std::uint64_t first, std::span<float> out) override {
    if (place.file == "missing") return make_error(ErrorCode::kNotFound, "missing: is not there");
    if (place.file == "long") return make_error(ErrorCode::kClosed, "long: this process ends");
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(first + i) + 0.5F;
    return ok();
  }
};

TableSpec begins_in(const std::string& file) {
  TableSpec table = test::make_table(0, {6});
  table.origin = TensorPlace{file, std::string(64, 'a'), 0, ElementType::kF32};
  return table;
}

std::vector<Outgoing> open_table(Shard& shard, JobMaker& job, const TableSpec& table) {
  pb::DataHello hello;
  hello.set_wire_version(kWireVersion);
  hello.set_job_hash(job.hash());
  const DataMessage envelope{JobId(7), WorkerId(0), job.incarnation(WorkerId(0)), {}};
  DataMessage message = envelope;
  message.body = hello;
  REQUIRE(only<pb::DataHelloReply>(shard.handle(kPeer, message, TimePoint())).accepted());
  pb::OpenTables requested;
  *requested.add_tables() = to_wire(table);
  message = envelope;
  message.body = requested;
  return shard.handle(kPeer, message, TimePoint());
}

/// What a shard with slices of 4 elements says to a table that starts in this file.
pb::OpenTablesReply open_beginning(Shard& shard, JobMaker& job, const TableSpec& table) {
  return only<pb::OpenTablesReply>(open_table(shard, job, table));
}

}  // namespace

TEST_CASE("a table with an origin starts from the file's numbers, slice by slice", "[shard]") {
  JobMaker job(1);
  job.state.mutable_definition()->add_weights("w");
  job.state.mutable_definition()->add_weights("missing");
  BufferPool pool;
  HalfValues values;
  Shard shard(ShardId(0), pool, 4, &values);
  REQUIRE(shard.set_job(job.view()).empty());
  const auto unnamed = open_beginning(shard, job, begins_in("another"));
  CHECK(unnamed.reason() == "table \"" + test::make_table(0, {6}).name +
                                "\" starts from another, which the job's weights do not name");
  CHECK(open_beginning(shard, job, begins_in("missing")).reason() == "missing: is not there");
  // What was refused leaves nothing behind.
  CHECK(open_beginning(shard, job, begins_in("w")).accepted());
  CHECK_THAT(open_beginning(shard, job, test::make_table(0, {6})).reason(),
             Contains("from byte 0 of w with SHA-256 aaaaaaaaaaaa"));
  for (const std::uint32_t slice : {0U, 1U}) {
    DataMessage ask{JobId(7), WorkerId(0), job.incarnation(WorkerId(0)), {}};
    DataItem item;
    item.kind = pb::DataItem::SNAPSHOT;
    item.table = TableId(0);
    item.slice = SliceId(slice);
    ask.body = DataItems{{item}};
    const auto answer = only<DataItems>(shard.handle(kPeer, ask, TimePoint()));
    REQUIRE(answer.items.size() == 1);
    CHECK(
        test::floats_of(answer.items[0].payload) ==
        (slice == 0 ? std::vector<float>{0.5F, 1.5F, 2.5F, 3.5F} : std::vector<float>{4.5F, 5.5F}));
  }
}

TEST_CASE("a shard that ends while it reads a file refuses no table for that", "[shard]") {
  JobMaker job(1);
  job.state.mutable_definition()->add_weights("w");
  job.state.mutable_definition()->add_weights("long");
  BufferPool pool;
  HalfValues values;
  Shard shard(ShardId(0), pool, 4, &values);
  REQUIRE(shard.set_job(job.view()).empty());
  CHECK(open_table(shard, job, begins_in("long")).empty());
  // Nor are they open.
  CHECK(open_beginning(shard, job, begins_in("w")).accepted());
}

TEST_CASE("a shard that reads no files refuses tables that start from one", "[shard]") {
  JobMaker job(1);
  job.state.mutable_definition()->add_weights("w");
  BufferPool pool;
  Shard shard(ShardId(0), pool);
  REQUIRE(shard.set_job(job.view()).empty());
  CHECK_FALSE(open_beginning(shard, job, begins_in("w")).accepted());
}

}  // namespace taut::server
