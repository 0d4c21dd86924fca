#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/formats/checkpoint_reader.hpp"
#include "proto/wire_version.hpp"
#include "server/checkpoints/checkpoint_file.hpp"
#include "server/checkpoints/resume_images.hpp"
#include "server/checkpoints/row_tensors.hpp"
#include "server/shard.hpp"
#include "server/tables/table_difference.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"
#include "tests/unit/server/row_job.hpp"

namespace taut::server {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using test::content_of;
using test::JobMaker;
using test::kBuckets;
using test::kRows;
using test::kWidth;
using Rows = std::vector<test::RowContent>;

std::vector<TableSpec> tables() {
  return {test::make_table(0, {5}), test::row_table(1)};
}

JobMaker job_of(int members, const char* type) {
  JobMaker job(members);
  job.solver().set_type(type);
  if (std::string(type) == "Adam") job.solver().set_momentum(0.9F);
  job.solver().set_base_lr(0.01F);
  for (pb::Member& member : *job.state.mutable_members()) member.set_slot(member.worker());
  return job;
}

/// A job with a table by rows on shards without sockets, whose updates are a function of worker,
/// clock and slice.
class RowService {
 public:
  RowService(JobMaker maker, std::uint32_t shards, std::vector<ShardImages> begin = {},
             std::vector<TableSpec> opened = tables())
      : job(std::move(maker)), tables_(std::move(opened)) {
    job.state.clear_shards();
    std::vector<ShardId> all;
    for (std::uint32_t i = 0; i < shards; ++i) {
      job.state.add_shards()->set_shard(i);
      all.emplace_back(i);
    }
    layout_ = SliceLayout(tables_, all);
    const auto view = job.view();
    for (std::uint32_t i = 0; i < shards; ++i) {
      auto& shard = shards_.emplace_back(std::make_unique<Shard>(ShardId(i), pool_));
      (void)shard->set_job(view, begin.empty() ? ShardImages() : std::move(begin[i]));
      pb::DataHello hello;
      hello.set_wire_version(kWireVersion);
      hello.set_job_hash(job.hash());
      say(*shard, 0, hello);
      pb::OpenTables open;
      for (const TableSpec& table : tables_) *open.add_tables() = to_wire(table);
      const auto answers = say(*shard, 0, open);
      const auto& reply = std::get<pb::OpenTablesReply>(answers.at(0).message.body);
      INFO(reply.reason());
      REQUIRE(reply.accepted());
    }
  }

  /// base  of an incremental one
  void order(std::uint64_t number, std::int64_t clock, const std::string& base = "") {
    pb::CheckpointOrder& order = *job.state.mutable_checkpoint();
    order.set_number(number);
    order.set_clock(clock);
    order.set_base(base);
    const auto view = job.view();
    for (auto& shard : shards_) (void)shard->set_job(view);
  }
  void push_all(std::int64_t first, std::int64_t end) {
    for (std::int64_t clock = first; clock < end; ++clock) {
      for (const pb::Member& member : job.state.members()) push(member.worker(), clock);
    }
  }
  std::vector<ShardCapture> captures() {
    std::vector<ShardCapture> all;
    for (auto& shard : shards_) {
      for (ShardCapture& one : shard->take_captures()) all.push_back(std::move(one));
    }
    return all;
  }
  /// The values of every row, and of table 0.
  std::vector<float> values() {
    std::vector<float> all;
    for (const Slice& place : layout_.slices()) {
      DataItem item = test::row_request(tables_[1], place.slice.value(), pb::DataItem::SNAPSHOT);
      if (place.table == TableId(0)) {
        item = {};
        item.kind = pb::DataItem::SNAPSHOT;
        item.count = place.count;
      }
      const auto answers = say(*shards_[place.shard.value()], 0, DataItems{{item}});
      const DataItem& answer = std::get<DataItems>(answers.at(0).message.body).items.at(0);
      INFO(answer.reason);
      REQUIRE(answer.kind == pb::DataItem::SNAPSHOT_VALUE);
      const auto own = test::floats_of(answer.payload);
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  JobMaker job;
  std::optional<std::uint32_t> only_bucket;  // no other one's rows are named

 private:
  void push(std::uint32_t worker, std::int64_t clock) {
    for (const Slice& place : layout_.slices()) {
      DataItem item = test::row_push(tables_[1], place.slice.value(), worker, clock);
      if (only_bucket && place.slice.value() != *only_bucket) {
        item.rows = 0;
        item.payload = {};
      }
      if (place.table == TableId(0)) {
        item = {};
        item.kind = pb::DataItem::PUSH;
        item.count = place.count;
        item.clock = Clock(clock);
        item.payload = test::frame_of(test::gradient_of(worker, clock, place.count, 50));
      }
      const auto answers = say(*shards_[place.shard.value()], worker, DataItems{{std::move(item)}});
      const DataItem& answer = std::get<DataItems>(answers.at(0).message.body).items.at(0);
      INFO(answer.reason);
      CHECK(answer.kind == pb::DataItem::ACK);
    }
  }
  template <class Body>
  std::vector<Outgoing> say(Shard& shard, std::uint32_t worker, Body body) {
    return shard.handle(
        PeerId(1),
        DataMessage{JobId(7), WorkerId(worker), job.incarnation(WorkerId(worker)), std::move(body)},
        TimePoint());
  }

  const std::vector<TableSpec> tables_;
  BufferPool pool_{Bytes(0)};
  std::vector<std::unique_ptr<Shard>> shards_;
  SliceLayout layout_;
};

/// The rows of each bucket that was captured.
std::map<std::uint32_t, Rows> buckets_of(const std::vector<ShardCapture>& captures) {
  std::map<std::uint32_t, Rows> buckets;
  for (const ShardCapture& capture : captures) {
    for (const SliceImage& image : capture.slices) {
      if (image.place.table == TableId(1)) {
        buckets[image.place.slice.value()] = content_of(image.rows, kWidth);
      }
    }
  }
  return buckets;
}

/// Writes what was captured, with the manifest that a coordinator would write.
/// Errors    those of write_shard_files()
Result<void> write_checkpoint(std::vector<ShardCapture> captures, const JobMaker& job,
                              std::int64_t clock, const fs::path& folder,
                              const std::vector<TableSpec>& opened = tables()) {
  pb::CheckpointManifest manifest;
  manifest.set_format(kCheckpointFormat);
  manifest.set_number(captures.at(0).order.number);
  manifest.set_clock(clock);
  manifest.set_slots(static_cast<std::uint32_t>(job.state.members_size()));
  *manifest.mutable_definition() = job.state.definition();
  for (const pb::Member& from : job.state.members()) {
    pb::CheckpointMember& member = *manifest.add_members();
    member.set_worker(from.worker());
    member.set_slot(from.slot());
    member.set_leave_clock(from.leave_clock());
  }
  for (const TableSpec& table : opened) *manifest.add_tables() = to_wire(table);
  for (ShardCapture& capture : captures) {
    CHECK(!capture.missed);
    capture.order.folder = folder.string();
    TAUT_TRY(auto files, write_shard_files(std::move(capture), false));
    for (pb::CheckpointFile& file : files) *manifest.add_files() = std::move(file);
  }
  test::put_file(folder / kManifestName, write_manifest(manifest));
  return ok();
}

JobMaker resumed(const JobMaker& before, std::int64_t clock, const fs::path& folder) {
  JobMaker job = before;
  job.state.clear_checkpoint();
  for (pb::Member& member : *job.state.mutable_members()) member.set_join_clock(clock);
  job.state.mutable_resume()->set_folder(folder.string());
  job.state.mutable_resume()->set_clock(clock);
  job.state.mutable_resume()->set_slots(static_cast<std::uint32_t>(job.state.members_size()));
  return job;
}

Result<std::vector<ShardImages>> read_images(const JobMaker& job, std::uint32_t shards) {
  pb::ServerJob state = job.state;
  state.clear_shards();
  for (std::uint32_t i = 0; i < shards; ++i) state.add_shards()->set_shard(i);
  return read_shard_images(state, shards);
}

/// A checkpoint of one shard at clock 9 whose first bucket has these rows.
fs::path save_rows(const test::TempFolder& folder, const std::vector<std::uint64_t>& numbers,
                   const std::vector<std::int64_t>& clocks, float value = 1) {
  RowService service(job_of(1, "SGD"), 1);
  service.order(1, 2);
  service.push_all(0, 2);
  std::vector<ShardCapture> captures = service.captures();
  REQUIRE(captures.size() == 1);
  RowImage& rows = captures[0].slices[1].rows;
  auto chunk = std::make_shared<RowChunk>();
  chunk->numbers = numbers;
  chunk->updated = clocks;
  chunk->floats.assign(numbers.size() * kWidth, value);
  rows = {numbers.size(), 0, 0, {}, {chunk}};
  const auto written = write_checkpoint(std::move(captures), service.job, 2, folder.path());
  if (!written) UNSCOPED_INFO(written.error().message);
  REQUIRE(written.has_value());
  return folder.path();
}

std::uint64_t row_of_bucket(std::uint32_t bucket, std::size_t at) {
  std::uint64_t row = 0;
  for (;; ++row) {
    if (bucket_of(row, kBuckets) == bucket && at-- == 0) return row;
  }
}

std::string refusal_of(const fs::path& folder) {
  const auto saved = CheckpointReader::open(folder);
  if (!saved) return saved.error().message;
  const auto rows = read_rows(saved.value(), saved.value().tables()[1], 0);
  return rows ? std::string() : rows.error().message;
}

}  // namespace

TEST_CASE("a job that is resumed has the rows of the undisturbed run, on any number of shards",
          "[checkpoint][rows]") {
  const char* type = GENERATE("SGD", "Adam", "FTRL");
  CAPTURE(type);
  const test::TempFolder folder;
  RowService whole(job_of(2, type), 2);
  whole.order(1, 12);
  whole.push_all(0, 12);
  std::vector<ShardCapture> at_twelve = whole.captures();
  const auto kept = buckets_of(at_twelve);
  REQUIRE(kept.size() == kBuckets);
  REQUIRE(write_checkpoint(at_twelve, whole.job, 12, folder.path()).has_value());
  whole.push_all(12, 30);
  whole.order(2, 30);
  const auto expected = buckets_of(whole.captures());
  CHECK(expected != kept);

  for (const std::uint32_t shards : {1U, 2U, 5U}) {
    CAPTURE(shards);
    const JobMaker job = resumed(whole.job, 12, folder.path());
    auto images = read_images(job, shards);
    INFO((images ? std::string() : images.error().message));
    REQUIRE(images.has_value());
    RowService second(job, shards, std::move(images.value()));
    second.push_all(12, 20);
    second.order(1, 30);
    second.push_all(20, 30);
    CHECK(test::same_bits(second.values(), whole.values()));
    // What is dropped later is the same too.
    CHECK(buckets_of(second.captures()) == expected);
  }
}

TEST_CASE("a job that is resumed with another max_rows has all that was saved",
          "[checkpoint][rows]") {
  const test::TempFolder folder;
  // A bucket is smaller than table 0 before and larger after, so that the shards have others.
  std::vector<TableSpec> opened{test::make_table(0, {200}), test::row_table(1)};
  opened[1].name = "rows/weight";
  RowService whole(job_of(2, "SGD"), 2, {}, opened);
  whole.order(1, 12);
  whole.push_all(0, 12);
  REQUIRE(write_checkpoint(whole.captures(), whole.job, 12, folder.path(), opened).has_value());

  std::vector<TableSpec> larger = opened;
  larger[1].rows->max_rows = kRows;
  const std::vector<ShardId> both{ShardId(0), ShardId(1)};
  CHECK(SliceLayout(opened, both).slices_of(TableId(1))[0].shard !=
        SliceLayout(larger, both).slices_of(TableId(1))[0].shard);
  JobMaker job = resumed(whole.job, 12, folder.path());
  pb::LayerParameter& layer = *job.state.mutable_definition()->mutable_net_param()->add_layer();
  layer.set_name("rows");
  layer.set_type("Embed");
  layer.mutable_embed_param()->set_by_rows(true);
  layer.mutable_embed_param()->mutable_evict()->set_max_rows(kRows);
  auto images = read_images(job, 2);
  INFO((images ? std::string() : images.error().message));
  REQUIRE(images.has_value());
  RowService second(job, 2, std::move(images.value()), larger);
  CHECK(test::same_bits(second.values(), whole.values()));
}

TEST_CASE("a shard's file is a function of the rows and of their clocks", "[checkpoint][rows]") {
  const test::TempFolder one;
  const test::TempFolder two;
  const test::TempFolder again;
  RowService whole(job_of(2, "Adam"), 1);
  whole.order(1, 6);
  whole.push_all(0, 6);
  REQUIRE(write_checkpoint(whole.captures(), whole.job, 6, one.path()).has_value());
  whole.order(2, 20);
  whole.push_all(6, 20);
  REQUIRE(write_checkpoint(whole.captures(), whole.job, 20, two.path()).has_value());
  const JobMaker job = resumed(whole.job, 6, one.path());
  // Its rows have other places in memory.
  RowService second(job, 1, std::move(read_images(job, 1).value()));
  second.order(2, 20);
  second.push_all(6, 20);
  REQUIRE(write_checkpoint(second.captures(), second.job, 20, again.path()).has_value());
  CHECK(test::bytes_of_file(two.path() / shard_file_name(0)) ==
        test::bytes_of_file(again.path() / shard_file_name(0)));
}

TEST_CASE("rows that are updated while they are written are written as they were",
          "[checkpoint][rows]") {
  const test::TempFolder folder;
  RowService service(job_of(2, "Adam"), 1);
  service.order(1, 6);
  service.push_all(0, 6);
  std::vector<ShardCapture> captures = service.captures();
  const auto before = buckets_of(captures);
  service.push_all(6, 20);
  CHECK(buckets_of(captures) == before);
  const auto written = write_checkpoint(std::move(captures), service.job, 6, folder.path());
  REQUIRE(written.has_value());
  const auto saved = CheckpointReader::open_to_resume(folder.path());
  REQUIRE(saved.has_value());
  const TableSpec& table = saved.value().tables()[1];
  CHECK(table == tables()[1]);
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const auto rows = read_rows(saved.value(), table, bucket);
    REQUIRE(rows.has_value());
    CHECK(content_of(rows.value(), kWidth) == before.at(bucket));
  }
  // There is no array of all rows to be read.
  std::vector<float> some(3);
  const auto refused = saved.value().read_values(TableId(1), 0, some);
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message, Contains("\"table1\" is kept by rows"));
}

TEST_CASE("rows that are not finite are not written", "[checkpoint][rows]") {
  const test::TempFolder folder;
  RowService service(job_of(1, "Adam"), 1);
  service.order(1, 2);
  service.push_all(0, 2);
  std::vector<ShardCapture> captures = service.captures();
  auto chunk = std::make_shared<RowChunk>(*captures[0].slices[1].rows.chunks.at(0));
  chunk->floats[4] = std::numeric_limits<float>::quiet_NaN();  // of a state
  captures[0].slices[1].rows.chunks[0] = chunk;
  const auto written = write_checkpoint(std::move(captures), service.job, 2, folder.path());
  REQUIRE_FALSE(written.has_value());
  CHECK_THAT(written.error().message, Contains("\"table1\" has rows that are not finite"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("rows that cannot be a bucket's are not read", "[checkpoint][rows]") {
  const test::TempFolder folder;
  const std::uint64_t first = row_of_bucket(0, 0);
  const std::uint64_t second = row_of_bucket(0, 1);
  CHECK(refusal_of(save_rows(folder, {first, second}, {1, 0})).empty());
  CHECK_THAT(refusal_of(save_rows(folder, {first, kRows}, {0, 1})),
             Contains("has row 3000 of 3000"));
  CHECK_THAT(refusal_of(save_rows(folder, {first, row_of_bucket(1, 0)}, {0, 1})),
             Contains("belongs to another"));
  CHECK_THAT(refusal_of(save_rows(folder, {first, second, first}, {0, 1, 2})), Contains("twice"));
  CHECK_THAT(refusal_of(save_rows(folder, {first, first}, {1, 1})), Contains("out of order"));
  CHECK_THAT(refusal_of(save_rows(folder, {first, second}, {-2, 0})), Contains("of clock -2"));
  CHECK_THAT(refusal_of(save_rows(folder, {first}, {Clock::never().value()})),
             Contains("of clock"));
}

TEST_CASE("a checkpoint whose buckets are not whole is not read", "[checkpoint][rows]") {
  const test::TempFolder folder;
  RowService service(job_of(1, "Adam"), 1);
  service.order(1, 2);
  service.push_all(0, 2);
  const std::vector<ShardCapture> captures = service.captures();
  const auto refused = [&](const std::function<void(ShardCapture&)>& change) {
    std::vector<ShardCapture> changed = captures;
    change(changed[0]);
    const auto written = write_checkpoint(std::move(changed), service.job, 2, folder.path());
    REQUIRE(written.has_value());
    return refusal_of(folder.path());
  };
  CHECK(refused([](ShardCapture&) {}).empty());
  CHECK_THAT(refused([](ShardCapture& capture) { capture.slices.pop_back(); }),
             Contains("of 6 buckets is not whole from bucket 5 on"));
  CHECK_THAT(refused([](ShardCapture& capture) { capture.slices.back().place.offset = 6; }),
             Contains("a slice [6, +1) of table 1 cannot be"));
  CHECK_THAT(refused([](ShardCapture& capture) {
               capture.slices.back().rows = {kRows + 1, 2, {}};
               auto chunk = std::make_shared<RowChunk>();
               chunk->numbers.resize(kRows + 1);
               chunk->updated.resize(kRows + 1);
               chunk->floats.resize((kRows + 1) * 3 * kWidth);
               capture.slices.back().rows.chunks = {chunk};
             }),
             Contains("a slice [5, +1) of table 1 cannot be"));
  CHECK_THAT(refused([](ShardCapture& capture) { capture.slices.back().rows.states = 1; }),
             Contains("is not whole from bucket 5 on"));
}

TEST_CASE("a bucket to which no update was applied is not written again",
          "[checkpoint][incremental][rows]") {
  const test::TempFolder home;
  JobMaker job = job_of(1, "Adam");
  job.state.mutable_definition()->mutable_checkpoint()->set_incremental(true);
  RowService service(job, 1);
  service.order(1, 4);
  service.push_all(0, 4);
  REQUIRE(write_checkpoint(service.captures(), service.job, 4, home.path() / "first").has_value());
  const std::string first = (home.path() / "first").string();
  // The same moment again: first the file of what is unchanged, then links to it.
  service.order(2, 4, first);
  REQUIRE(write_checkpoint(service.captures(), service.job, 4, home.path() / "second").has_value());
  const auto second = CheckpointReader::open(home.path() / "second");
  REQUIRE(second.has_value());
  const auto bucket = second.value().find_slice(TableId(1), 3, 1);
  REQUIRE(bucket.slice != nullptr);
  CHECK(bucket.file->order() == 1);
  CHECK(second.value().bucket(TableId(1), 3).rows() > 0);
  const auto rows = read_rows(second.value(), second.value().tables()[1], 3);
  REQUIRE(rows.has_value());
  service.order(3, 6, (home.path() / "second").string());
  service.push_all(4, 6);
  REQUIRE(write_checkpoint(service.captures(), service.job, 6, home.path() / "third").has_value());
  const auto third = CheckpointReader::open(home.path() / "third");
  REQUIRE(third.has_value());
  CHECK(third.value().find_slice(TableId(1), 3, 1).file->order() == 0);
}

/// Whether a slice is in the file of what has changed. The rows here take less than a file's head,
/// so that a file of others is not worth a link.
bool is_written(const CheckpointReader::Stored& slice) {
  return slice.file->order() == 0 && slice.file->name().find("unchanged") == std::string::npos;
}

TEST_CASE("of a table by rows only the buckets whose rows have changed are written again",
          "[checkpoint][incremental][rows]") {
  const test::TempFolder home;
  JobMaker job = job_of(1, "Adam");
  job.state.mutable_definition()->mutable_checkpoint()->set_incremental(true);
  RowService service(job, 1);
  const auto save = [&](std::uint64_t number, std::int64_t clock, const char* to,
                        const char* base) {
    service.order(number, clock, base == nullptr ? "" : (home.path() / base).string());
    service.push_all(clock - 1, clock);
    return write_checkpoint(service.captures(), service.job, clock, home.path() / to).has_value();
  };
  REQUIRE(save(1, 1, "first", nullptr));
  // The next updates name rows of bucket 2 alone, and all others none: an application all the same.
  service.only_bucket = 2;
  REQUIRE(save(2, 2, "second", "first"));
  REQUIRE(save(3, 3, "third", "second"));
  const auto third = CheckpointReader::open_to_resume(home.path() / "third");
  REQUIRE(third.has_value());
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const auto slice = third.value().find_slice(TableId(1), bucket, 1);
    REQUIRE(slice.slice != nullptr);
    CHECK(slice.slice->applications() == 3);
    CHECK(is_written(slice) == (bucket == 2));
    CHECK(read_rows(third.value(), third.value().tables()[1], bucket).has_value());
  }
  // A job that continues from it counts on.
  JobMaker later = resumed(service.job, 3, home.path() / "third");
  auto images = read_images(later, 1);
  REQUIRE(images.has_value());
  RowService continued(later, 1, std::move(images.value()));
  continued.only_bucket = 4;
  continued.order(4, 4, (home.path() / "third").string());
  continued.push_all(3, 4);
  REQUIRE(
      write_checkpoint(continued.captures(), continued.job, 4, home.path() / "fourth").has_value());
  const auto fourth = CheckpointReader::open(home.path() / "fourth");
  REQUIRE(fourth.has_value());
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    const auto slice = fourth.value().find_slice(TableId(1), bucket, 1);
    CHECK(is_written(slice) == (bucket == 4));
  }
}

TEST_CASE("a table cannot be resumed in another number of buckets, nor whole", "[rows]") {
  std::vector<TableSpec> requested = tables();
  CHECK(resume_difference(tables(), requested).empty());
  requested[1].rows->max_rows = 7;
  CHECK(resume_difference(tables(), requested).empty());
  requested[1].rows->buckets = 8;
  CHECK(resume_difference(tables(), requested) ==
        "the checkpoint holds table \"table1\" by rows in 6 buckets, the job keeps it by rows in "
        "8 buckets");
  requested[1].rows.reset();
  CHECK_THAT(resume_difference(tables(), requested), Contains("the job keeps it whole"));
  CHECK_THAT(difference(tables(), requested), Contains("by rows in 6 buckets, max_rows 240"));
}

}  // namespace taut::server
