#include "server/coordinator/runs/run_keeper.hpp"

#include <nlohmann/json.hpp>

#include "common/files/file.hpp"
#include "proto/session/record_sender.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

namespace taut {
namespace {

namespace fs = std::filesystem;

pb::StoredJob make_stored(std::uint64_t number, std::uint64_t token) {
  pb::StoredJob job;
  job.set_job(number);
  job.set_token(token);
  job.set_state(pb::RUNNING);
  job.mutable_definition()->set_name("my/net");
  job.mutable_definition()->set_workers(1);
  pb::StoredMember& member = *job.add_members();
  member.mutable_member()->set_name("w0");
  member.mutable_progress()->set_clock(12);
  return job;
}

pb::RecordPart part_of(pb::RecordPart::Kind kind, std::uint64_t offset, const std::string& text) {
  pb::RecordPart part;
  part.set_job(3);
  part.set_kind(kind);
  part.set_offset(offset);
  part.set_text(text);
  part.set_kept_at("machine:/records/metrics.csv");
  return part;
}

std::string text_of(const fs::path& file) {
  const auto text = read_file(file);
  return text ? text.value() : "(none)";
}

pb::LogReply log_of(const RunKeeper& keeper, const std::string& process, std::uint64_t from = 0) {
  pb::LogRequest request;
  request.set_job(3);
  request.set_process(process);
  request.set_offset(from);
  return keeper.log(request);
}

TEST_CASE("a job's folder has its definition, its origin, records, the log and a summary",
          "[coordinator]") {
  const test::TempFolder folder;
  RunKeeper keeper(folder.path() / "runs");
  pb::StoredJob job = make_stored(3, 17);
  pb::RunOrigin origin;
  origin.add_command("tautline");
  origin.add_command("submit");
  keeper.begin(job, origin);
  keeper.note(JobId(3), "job 3: starts");
  CHECK(keeper.take(JobId(3), "w0", part_of(pb::RecordPart::METRICS, 0, "clock\n0\n")) == 8);
  CHECK(keeper.take(JobId(3), "w0", part_of(pb::RecordPart::TESTS, 0, "output\n")) == 7);
  CHECK(keeper.take(JobId(3), "w0", part_of(pb::RecordPart::LOG, 0, "hello\n")) == 6);
  job.set_state(pb::DONE);
  keeper.end(job);
  const fs::path run = folder.path() / "runs/job3-my_net";
  CHECK_THAT(text_of(run / "job.textproto"), Catch::Matchers::Contains("workers: 1"));
  CHECK_THAT(text_of(run / "coordinator.log"), Catch::Matchers::Contains("job 3: starts\n"));
  CHECK(text_of(run / "job3-w0/metrics.csv") == "clock\n0\n");
  CHECK(text_of(run / "job3-w0/tests.csv") == "output\n");
  CHECK(text_of(run / "w0.log") == "hello\n");
  const auto about = nlohmann::json::parse(text_of(run / "run.json"));
  CHECK(about["command"].size() == 2);
  const auto summary = nlohmann::json::parse(text_of(run / "summary.json"));
  CHECK(summary["state"] == "done");
  CHECK(summary["iterations"] == 12);
  CHECK(summary["records_kept_at"][0]["kept_at"] == "machine:/records/metrics.csv");
  CHECK(keeper.place_of(JobId(3)).ends_with(":" + run.string()));
}

TEST_CASE("the log of a process named coordinator is apart from the coordinator's own lines",
          "[coordinator]") {
  const test::TempFolder folder;
  RunKeeper keeper(folder.path());
  keeper.begin(make_stored(3, 17), {});
  keeper.note(JobId(3), "job 3: starts");
  CHECK(keeper.take(JobId(3), "coordinator", part_of(pb::RecordPart::LOG, 0, "hello\n")) == 6);
  CHECK_THAT(log_of(keeper, "").text(), Catch::Matchers::EndsWith("job 3: starts\n"));
  const pb::LogReply own = log_of(keeper, "coordinator");
  CHECK(own.text() == "hello\n");
  REQUIRE(own.processes_size() == 1);
  // It is listed under the name of its file, which works as well.
  CHECK(log_of(keeper, own.processes(0)).text() == "hello\n");
}

TEST_CASE("jobs of one number get their own folders, and numbers continue after the folders'",
          "[coordinator]") {
  const test::TempFolder folder;
  RunKeeper first(folder.path());
  CHECK(first.next_job() == 1);
  first.begin(make_stored(3, 17), {});
  first.take(JobId(3), "w0", part_of(pb::RecordPart::LOG, 0, "first\n"));
  // A coordinator that has lost its state, and one that has it still.
  RunKeeper other(folder.path());
  CHECK(other.next_job() == 4);
  other.begin(make_stored(3, 18), {});
  other.take(JobId(3), "w0", part_of(pb::RecordPart::LOG, 0, "other\n"));
  RunKeeper again(folder.path());
  again.begin(make_stored(3, 17), {});
  CHECK(again.take(JobId(3), "w0", part_of(pb::RecordPart::LOG, 6, "again\n")) == 12);
  CHECK(text_of(folder.path() / "job3-my_net/w0.log") == "first\nagain\n");
  CHECK(text_of(folder.path() / "job3-my_net-2/w0.log") == "other\n");
}

TEST_CASE("a folder whose run.json says nothing of this job is another's, whatever is in it",
          "[coordinator]") {
  for (const char* about : {R"({"token": 17})", R"({"token": null})", "{}", "[]", "7", "{", ""}) {
    CAPTURE(about);
    const test::TempFolder folder;
    folder.write("job3-my_net/run.json", about);
    RunKeeper keeper(folder.path());
    keeper.begin(make_stored(3, 17), {});
    CHECK(keeper.place_of(JobId(3)).ends_with("job3-my_net-2"));
    CHECK(text_of(folder.path() / "job3-my_net/run.json") == about);
  }
}

TEST_CASE("a repeated part of a record is stored once", "[coordinator]") {
  const test::TempFolder folder;
  const fs::path metrics = folder.path() / "job3-my_net/job3-w0/metrics.csv";
  {
    RunKeeper keeper(folder.path());
    keeper.begin(make_stored(3, 17), {});
    CHECK(keeper.take(JobId(3), "w0", part_of(pb::RecordPart::METRICS, 0, "abc")) == 3);
    CHECK(keeper.take(JobId(3), "w0", part_of(pb::RecordPart::METRICS, 0, "abc")) == 3);
    CHECK(keeper.take(JobId(3), "w0", part_of(pb::RecordPart::METRICS, 0, "abcde")) == 5);
  }
  // The coordinator has restarted, and its last answer was lost.
  RunKeeper keeper(folder.path());
  keeper.begin(make_stored(3, 17), {});
  CHECK(keeper.take(JobId(3), "w0", part_of(pb::RecordPart::METRICS, 3, "defg")) == 7);
  CHECK(text_of(metrics) == "abcdefg");
}

TEST_CASE("what a peer sends does not leave its job's folder, and is bounded", "[coordinator]") {
  const test::TempFolder folder;
  RunKeeper keeper(folder.path() / "runs");
  keeper.begin(make_stored(3, 17), {});
  const auto part = part_of(pb::RecordPart::LOG, 0, "x\n");
  CHECK(keeper.take(JobId(3), "../../evil", part) == 2);
  CHECK(!fs::exists(folder.path() / "evil.log"));
  CHECK(keeper.take(JobId(4), "w0", part) == kRecordIsComplete);
  CHECK(keeper.take(JobId(3), "w0",
                    part_of(pb::RecordPart::LOG, 0, std::string(kMaxRecordPart + 1, 'x'))) ==
        kRecordIsComplete);
  // The end of a long log is kept.
  const std::string line(1023, 'y');
  std::uint64_t end = 0;
  for (int i = 0; i < 80; ++i) {
    std::string text;
    for (int k = 0; k < 100; ++k) text += line + "\n";
    end = keeper.take(JobId(3), "w1", part_of(pb::RecordPart::LOG, end, text));
  }
  keeper.take(JobId(3), "w1", part_of(pb::RecordPart::LOG, end, "the end\n"));
  const fs::path log = folder.path() / "runs/job3-my_net/w1.log";
  CHECK(fs::file_size(log) < (std::uint64_t{5} << 20U));
  CHECK(text_of(log).ends_with("the end\n"));
  const pb::LogReply reply = log_of(keeper, "w1", end);
  CHECK(reply.text() == "the end\n");
  CHECK(reply.next() == end + 8);
  CHECK_THAT(log_of(keeper, "w7").error(), Catch::Matchers::Contains("there are those of"));
}

TEST_CASE("a folder that cannot be written costs the records, and nothing else", "[coordinator]") {
  const test::TempFolder folder;
  RunKeeper keeper(folder.write("file", "") / "runs");
  pb::StoredJob job = make_stored(3, 17);
  keeper.begin(job, {});
  keeper.note(JobId(3), "job 3: starts");
  CHECK(keeper.take(JobId(3), "w0", part_of(pb::RecordPart::LOG, 0, "x")) == kRecordIsComplete);
  keeper.end(job);
  CHECK(keeper.place_of(JobId(3)).empty());
}

}  // namespace
}  // namespace taut
