// Incremental checkpoints of tables by rows have what has changed.
#include <string>
#include <utility>

#include "proto/formats/checkpoint_reader.hpp"
#include "server/checkpoints/row_tensors.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/server/row_service.hpp"

namespace taut::server {
namespace {

using test::JobMaker;
using test::kBuckets;
using test::by_rows::job_of;
using test::by_rows::read_images;
using test::by_rows::resumed;
using test::by_rows::RowService;
using test::by_rows::write_checkpoint;

/// Whether a slice is in the file of what has changed. The rows here take less than a file's head,
/// so that a file of others is not worth a link.
bool is_written(const CheckpointReader::Stored& slice) {
  return slice.file->order() == 0 && slice.file->name().find("unchanged") == std::string::npos;
}

}  // namespace

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

}  // namespace taut::server
