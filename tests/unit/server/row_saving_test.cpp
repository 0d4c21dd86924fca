// Tables by rows in checkpoints.
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/formats/checkpoint_reader.hpp"
#include "server/checkpoints/checkpoint_file.hpp"
#include "server/checkpoints/row_tensors.hpp"
#include "server/tables/table_difference.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/proto/checkpoint_maker.hpp"
#include "tests/unit/server/row_service.hpp"

namespace taut::server {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using test::content_of;
using test::JobMaker;
using test::kBuckets;
using test::kRows;
using test::kWidth;
using test::by_rows::buckets_of;
using test::by_rows::job_of;
using test::by_rows::read_images;
using test::by_rows::resumed;
using test::by_rows::RowService;
using test::by_rows::tables;
using test::by_rows::write_checkpoint;

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
