#include "proto/session/record_sender.hpp"

#include "common/log.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut {
namespace {

pb::RecordMark mark_of(std::uint64_t job, pb::RecordPart::Kind kind, std::uint64_t end) {
  pb::RecordMark mark;
  mark.set_job(job);
  mark.set_kind(kind);
  mark.set_end(end);
  return mark;
}

pb::Heartbeat parts_of(const RecordSender& sender) {
  pb::Heartbeat heartbeat;
  sender.add_parts(heartbeat);
  return heartbeat;
}

TEST_CASE("a record is sent part by part, each until it has arrived", "[control]") {
  const test::TempFolder folder;
  const std::string whole = "clock,loss\n" + std::string(kMaxRecordPart, 'x');
  const auto file = folder.write("metrics.csv", whole);
  RecordSender sender("");
  sender.set_file(JobId(3), pb::RecordPart::METRICS, file);
  sender.set_file(JobId(3), pb::RecordPart::METRICS, file);
  for (int repeated = 0; repeated < 2; ++repeated) {
    const pb::Heartbeat first = parts_of(sender);
    REQUIRE(first.records_size() == 1);
    CHECK(first.records(0).text().size() == kMaxRecordPart);
    CHECK(first.records(0).offset() == 0);
    CHECK(first.records(0).kept_at().ends_with(":" + file.string()));
  }
  sender.take({mark_of(3, pb::RecordPart::METRICS, kMaxRecordPart)});
  const pb::Heartbeat second = parts_of(sender);
  REQUIRE(second.records_size() == 1);
  CHECK(second.records(0).offset() == kMaxRecordPart);
  CHECK(second.records(0).text() == whole.substr(kMaxRecordPart));
  sender.take({mark_of(3, pb::RecordPart::METRICS, whole.size())});
  CHECK(parts_of(sender).records().empty());
  // It may grow until it is over, and a coordinator may need no more of it.
  folder.write("metrics.csv", whole + "more");
  CHECK(parts_of(sender).records(0).text() == "more");
  sender.take({mark_of(3, pb::RecordPart::METRICS, kRecordIsComplete)});
  CHECK(parts_of(sender).records().empty());
}

TEST_CASE("a file that does not exist yet is sent once it does", "[control]") {
  const test::TempFolder folder;
  RecordSender sender("");
  sender.set_file(JobId(3), pb::RecordPart::METRICS, folder.write("metrics.csv", "clock\n"));
  sender.set_file(JobId(3), pb::RecordPart::TESTS, folder.path() / "tests.csv");
  sender.take({mark_of(3, pb::RecordPart::METRICS, 6)});
  CHECK(parts_of(sender).records().empty());
  folder.write("tests.csv", "output\n");
  const pb::Heartbeat parts = parts_of(sender);
  REQUIRE(parts.records_size() == 1);
  CHECK(parts.records(0).kind() == pb::RecordPart::TESTS);
  CHECK(parts.records(0).text() == "output\n");
  sender.take({mark_of(3, pb::RecordPart::TESTS, 7)});
  CHECK(parts_of(sender).records().empty());
}

TEST_CASE("the log of a job starts and ends with the job", "[control]") {
  const test::TempFolder folder;
  const std::string file = (folder.path() / "log").string();
  REQUIRE(log::start({.role = "worker", .name = "w0", .file = file}).has_value());
  log::info("before");
  RecordSender sender(file);
  sender.begin(JobId(3));
  log::info("during");
  sender.end(JobId(3));
  log::info("after");
  const pb::Heartbeat parts = parts_of(sender);
  REQUIRE(parts.records_size() == 1);
  const pb::RecordPart& part = parts.records(0);
  CHECK(part.kind() == pb::RecordPart::LOG);
  CHECK_THAT(part.text(), Catch::Matchers::Contains("during\n"));
  CHECK(part.text().find("before") == std::string::npos);
  CHECK(part.text().find("after") == std::string::npos);
  sender.take({mark_of(3, pb::RecordPart::LOG, part.text().size())});
  CHECK(parts_of(sender).records().empty());
}

TEST_CASE("a log that has grown beyond what is remembered continues with what is", "[control]") {
  const test::TempFolder folder;
  REQUIRE(log::start({.role = "worker", .name = "w0", .file = (folder.path() / "log").string()})
              .has_value());
  RecordSender sender("");
  sender.begin(JobId(3));
  for (int line = 0; line < 20000; ++line) log::info("line {} {}", line, std::string(80, 'z'));
  const pb::Heartbeat parts = parts_of(sender);
  REQUIRE(parts.records_size() == 1);
  CHECK(parts.records(0).offset() > 0);
  CHECK(parts.records(0).text().size() <= kMaxRecordPart);
}

}  // namespace
}  // namespace taut
