#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/views/draw.hpp"
#include "cli/views/job_text.hpp"
#include "cli/views/message_json.hpp"
#include "cli/views/queue_view.hpp"
#include "cli/views/status_view.hpp"
#include "cli/views/summary_view.hpp"
#include "cli/views/top_view.hpp"
#include "cli/views/worker_marks.hpp"
#include "common/types.hpp"
#include "proto/config/job_words.hpp"
#include "tests/support/catch.hpp"

namespace taut::cli {
namespace {

/// Two workers under SSP 1, one clock apart.
pb::JobStatus two_workers() {
  pb::JobStatus job;
  job.set_job(4);
  job.set_name("lenet");
  job.set_state(pb::RUNNING);
  job.set_mode("SSP");
  job.set_slack(1);
  job.set_epoch(1);
  job.set_max_iter(1000);
  job.set_running_s(20);
  job.set_left_s(60);
  job.set_rate(2000);
  job.set_rate_unit("images/s");
  for (int i = 0; i < 2; ++i) {
    pb::WorkerStatus& worker = *job.add_workers();
    worker.set_name("worker" + std::to_string(i));
    worker.set_worker(static_cast<std::uint32_t>(i));
    worker.set_state(pb::PROCESS_RUNNING);
    pb::Progress& progress = *worker.mutable_progress();
    progress.set_clock(250 + i);
    progress.set_loss(0.5 + i);
    progress.set_images_per_second(1000);
    progress.set_images(16'000);
    progress.set_compute_s(6);
    progress.set_wait_s(2);
    for (int staleness = 0; staleness < 2; ++staleness) {
      progress.add_staleness()->set_staleness(staleness);
      progress.mutable_staleness(staleness)->set_reads(staleness == 0 ? 300 : 100);
    }
  }
  return job;
}

bool holds(const std::vector<std::string>& lines, const std::string& text) {
  for (const std::string& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("a line that is cut ends in dots, and colours take no room", "[cli]") {
  CHECK(fit("worker0", 7) == "worker0");
  CHECK(fit("worker0", 5) == "work…");
  CHECK(fit("naïve", 5) == "naïve");
  CHECK(fit("naïve tests", 4) == "naï…");
  CHECK(fit("\x1b[31mlost\x1b[0m", 4) == "\x1b[31mlost\x1b[0m");
  CHECK(fit("\x1b[31mworker0\x1b[0m", 3) == "\x1b[31mwo…\x1b[0m");
}

TEST_CASE("lost, silent and slow workers have a sign, and a colour where there are colours",
          "[cli]") {
  pb::JobStatus job = two_workers();
  const auto lines = [&job](bool colours) { return progress_block(job, 80, {}, colours); };
  CHECK_FALSE(holds(lines(true), "\x1b"));
  // worker0 does not wait, and worker1 waits for it.
  job.mutable_workers(0)->mutable_progress()->set_wait_s(0);
  job.mutable_workers(1)->mutable_progress()->set_wait_s(6);
  CHECK(mark_of(job, job.workers(0), waits_since_start(job)) == WorkerMark::kStraggler);
  CHECK(mark_of(job, job.workers(1), waits_since_start(job)) == WorkerMark::kNone);
  CHECK(holds(lines(false), "  < straggler"));
  CHECK_FALSE(holds(lines(false), "\x1b"));
  CHECK(holds(lines(true), "\x1b[35mworker0"));
  job.mutable_workers(0)->set_silent_s(12);
  job.mutable_workers(0)->set_is_stale(true);
  CHECK(holds(lines(false), "  ? stalled"));
  CHECK(holds(lines(false), "silent 12 s"));
  job.mutable_workers(0)->set_state(pb::PROCESS_LOST);
  CHECK(holds(lines(true), "\x1b[31mworker0"));
  CHECK(holds(lines(false), "  ! lost"));
}

TEST_CASE("the straggler is the one that others wait for now, and not since the start", "[cli]") {
  pb::StatusReply status;
  pb::JobStatus& job = *status.add_jobs() = two_workers();
  const auto waits = [&](int worker, double wait_s) {
    job.mutable_workers(worker)->mutable_progress()->set_wait_s(wait_s);
  };
  // For an hour worker1 waited for worker0.
  waits(0, 0);
  waits(1, 1800);
  TopView top(false);
  TimePoint now = steady_now();
  const auto lines = top.draw(status, now, 100, 40);
  CHECK(holds(lines, "waited 100 %"));
  CHECK_FALSE(holds(lines, "straggler"));
  // Since two seconds worker0 waits, and finishes no clock meanwhile.
  for (int frame = 1; frame <= 4; ++frame) {
    waits(0, 0.5 * frame);
    now = now + std::chrono::milliseconds(500);
    const auto later = top.draw(status, now, 100, 40);
    if (frame < 4) continue;
    CHECK(holds(later, "waits 100 %"));
    CHECK(holds(later, "waits 0 %"));
    bool marked = false;
    for (const std::string& line : later) {
      if (line.starts_with("worker0")) CHECK(line.find("straggler") == std::string::npos);
      if (line.starts_with("worker1")) marked = line.find("< straggler") != std::string::npos;
    }
    CHECK(marked);
  }
  // A status is of one moment: it has the share since the start.
  CHECK(holds(status_view(status, 100), "waited 100 %"));
}

TEST_CASE("a worker that started again has no share of waiting until it is known", "[cli]") {
  pb::JobStatus job = two_workers();
  RecentWaits waits;
  const TimePoint now = steady_now();
  waits.take(job, now);
  CHECK(waits.shares().empty());
  job.mutable_workers(0)->mutable_progress()->set_wait_s(0.25);
  job.mutable_workers(1)->mutable_progress()->set_wait_s(3);
  job.mutable_workers(1)->set_silent_s(0.5);  // its figures are of then
  waits.take(job, now + std::chrono::milliseconds(2500));
  CHECK_FALSE(waits.shares().contains("worker0"));
  CHECK(waits.shares().at("worker1") == Approx(0.5));
}

TEST_CASE("a narrow terminal cuts the times, and keeps the accuracy with its iteration", "[cli]") {
  pb::JobStatus job = two_workers();
  pb::Evaluation& test = *job.add_evaluations();
  test.set_clock(1000);
  test.set_accuracy(0.9125);
  CHECK(holds(progress_block(job, 100), "left 1:00  accuracy 0.9125 at iteration 1,000"));
  CHECK(holds(progress_block(job, 80), "images/s  left 1:00  accuracy 0.9125 at iteration 1,000"));
  CHECK(holds(progress_block(job, 60), "2,000 images/s  accuracy 0.9125 at 1,000"));
  CHECK(holds(progress_block(job, 40), "loss 1.0000  accuracy 0.9125 at 1,000"));
}

TEST_CASE("a line of a log groups thousands as the terminal does", "[cli]") {
  pb::JobStatus job = two_workers();
  job.set_max_iter(20'000);
  job.mutable_workers(0)->mutable_progress()->set_clock(12'345);
  job.mutable_workers(1)->mutable_progress()->set_clock(12'346);
  CHECK(progress_line(job) ==
        "iteration 12,345 of 20,000  loss 1.0000  2,000 images/s  apart 1  left 1:00");
}

TEST_CASE("a line of a log fits 80 columns with any number of workers", "[cli]") {
  pb::JobStatus job = two_workers();
  job.set_max_iter(20'000);
  for (int i = 0; i < 1000; ++i) {
    pb::WorkerStatus& worker = *job.add_workers();
    worker = job.workers(i % 2);
    worker.set_name("more" + std::to_string(i));
    worker.mutable_progress()->set_clock(12'000 + i);
  }
  CHECK(progress_line(job).size() <= 80);
  CHECK(holds({progress_line(job)}, "apart "));
  for (const std::string& line : summary_lines({.job = job, .folder = "runs/x"})) {
    CHECK(line.size() <= 120);
  }
}

TEST_CASE("a worker's line fits the terminal whatever its name, and its track takes the rest",
          "[cli]") {
  pb::JobStatus job = two_workers();
  job.mutable_workers(0)->set_name("rack7-machine-of-the-long-name-worker0");
  job.mutable_workers(1)->set_name("rack7-machine-of-the-long-name-worker1");
  job.mutable_clocks()->set_version(250);
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto& member = *job.mutable_clocks()->add_members();
    member.set_worker(i);
    member.set_clock(250 + i);
  }
  for (const int width : {64, 80, 100, 200}) {
    int workers = 0;
    for (const std::string& line : progress_block(job, width)) {
      if (!line.starts_with("rack7")) continue;
      ++workers;
      CAPTURE(line);
      CHECK(std::ssize(line) <= width);
      CHECK(std::ssize(line) >= width - 16);
      const char* const end = workers == 1 ? "r0 " : "r1 ";
      CHECK(line.find(end) != std::string::npos);
    }
    CHECK(workers == 2);
  }
}

TEST_CASE("numbers are grouped by thousands", "[cli]") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-1234567) == "-1,234,567");
  CHECK(grouped(-100) == "-100");
}

TEST_CASE("a bar is as full as its fraction, and never more than full", "[cli]") {
  CHECK(bar(0, 4) == "[----]");
  CHECK(bar(0.5, 4) == "[##--]");
  CHECK(bar(7, 4) == "[####]");
}

TEST_CASE("a histogram shows the smallest count as something", "[cli]") {
  const auto lines = histogram({{0, 100'000}, {3, 1}}, 10);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "0  100.0 %  100,000  ##########");
  CHECK(lines[1] == "3    0.0 %        1  #");
}

TEST_CASE("a histogram of many values has ranges of one length, and loses nothing", "[cli]") {
  std::vector<std::pair<std::int64_t, std::uint64_t>> bins;
  for (std::int64_t value = 0; value < 100; ++value) bins.emplace_back(value, 10);
  const auto lines = histogram(bins, 10, 6);
  REQUIRE(lines.size() == 6);
  CHECK_THAT(lines[0], Catch::Matchers::StartsWith(" 0-16  17.0 %  170  ##########"));
  CHECK_THAT(lines[5], Catch::Matchers::StartsWith("85-99  15.0 %  150  #########"));
  CHECK(histogram({}, 10).empty());
}

TEST_CASE("a worker is drawn on the track at its clock, and the bound at its own", "[cli]") {
  CHECK(track(10, 14, 10, 14, 5) == "o...|");
  CHECK(track(10, 14, 12, 14, 5) == "..o.|");
  CHECK(track(10, 14, 14, 20, 5) == "....o");
  CHECK(track(10, 1000, 1000, 12, 5) == "|...o");
}

TEST_CASE("a job's iteration is its slowest worker's, and a lost one does not count", "[cli]") {
  pb::JobStatus job = two_workers();
  CHECK(progress_of(job).iteration == 250);
  CHECK(progress_of(job).apart == 1);
  CHECK(progress_of(job).loss == 1.0);
  job.mutable_workers(0)->set_state(pb::PROCESS_LOST);
  CHECK(progress_of(job).iteration == 251);
  CHECK(progress_of(job).apart == 0);
}

TEST_CASE("the progress block says how far, how fast, how far apart, and the bound", "[cli]") {
  const auto lines = progress_block(two_workers(), 80);
  CHECK(holds(lines, "iteration 250 of 1,000"));
  CHECK(holds(lines, "25 %"));
  CHECK(holds(lines, "2,000 images/s"));
  CHECK(holds(lines, "elapsed 0:20  left 1:00"));
  CHECK(holds(lines, "waited 25 %"));
  CHECK(holds(lines, "1 clock apart; reads were at most 1 behind; slack 1"));
  for (const std::string& line : lines) CHECK(line.size() < 80);
}

/// Of two workers, as a shard sees them.
pb::JobStatus with_clocks(std::int64_t version, std::int64_t first, std::int64_t second) {
  pb::JobStatus job = two_workers();
  job.set_slack(2);
  job.mutable_clocks()->set_version(version);
  for (const std::int64_t clock : {first, second}) {
    pb::JobClocks::MemberClock& member = *job.mutable_clocks()->add_members();
    member.set_worker(static_cast<std::uint32_t>(job.clocks().members_size() - 1));
    member.set_clock(clock);
  }
  return job;
}

TEST_CASE("clocks are those of one shard at one moment, and the bound is at the slack", "[cli]") {
  // The straggler's own report is newer than the other worker's: it seems ahead, and is not.
  pb::JobStatus job = with_clocks(251, 253, 251);
  job.mutable_workers(0)->mutable_progress()->set_clock(250);
  job.mutable_workers(1)->mutable_progress()->set_clock(258);
  CHECK(progress_of(job).iteration == 251);
  CHECK(progress_of(job).apart == 2);
  const auto lines = progress_block(job, 80);
  bool first = false;
  for (const std::string& line : lines) {
    if (line.find("worker0") != std::string::npos) {
      first = true;
      // It is at the bound, which is where the line ends.
      CHECK(line.find(".o  +2") != std::string::npos);
    }
    if (line.find("worker1") != std::string::npos) {
      CHECK(line.find("251  o.") != std::string::npos);
      CHECK(line.find(".|  +0") != std::string::npos);
    }
  }
  CHECK(first);
  CHECK(holds(lines, "2 clocks apart"));
  job.set_clocks_age_s(12);
  CHECK(holds(progress_block(job, 80), "2 clocks apart 12 s ago"));
}

TEST_CASE("a worker that is silent shows since when, and not what it waited", "[cli]") {
  pb::JobStatus job = two_workers();
  job.mutable_workers(1)->set_is_stale(true);
  job.mutable_workers(1)->set_silent_s(12);
  const auto lines = progress_block(job, 80);
  CHECK(holds(lines, "silent 12 s"));
  int waited = 0;
  for (const std::string& line : lines) waited += line.find("waited") != std::string::npos ? 1 : 0;
  CHECK(waited == 1);
}

TEST_CASE("a worker without an iteration has no loss, and the job's is the others'", "[cli]") {
  pb::JobStatus job = two_workers();
  // It has joined at clock 250, and trained nothing.
  job.mutable_workers(0)->mutable_progress()->set_images(0);
  job.mutable_workers(0)->mutable_progress()->set_loss(0);
  CHECK(progress_of(job).loss == 1.5);
  job.mutable_workers(1)->mutable_progress()->set_images(0);
  CHECK_FALSE(progress_of(job).loss);
  CHECK(progress_line(job).find("loss -") != std::string::npos);
}

TEST_CASE("a job on text reports tokens/s and perplexity, one on images images/s", "[cli]") {
  pb::Job job;
  pb::LayerParameter& layer = *job.mutable_net_param()->add_layer();
  layer.set_type("Data");
  CHECK(words_of(job).rate() == "images/s");
  CHECK_FALSE(words_of(job).has_perplexity);
  layer.mutable_data_param()->set_backend(pb::DataParameter::TEXT);
  layer.mutable_text_param()->set_steps(20);
  CHECK(words_of(job).rate() == "tokens/s");
  CHECK(words_of(job).records == "sequences");
  CHECK(words_of(job).items_per_record == 20);
  pb::Evaluation test;
  test.set_clock(5);
  test.set_loss(std::log(8));
  test.set_accuracy(std::numeric_limits<double>::quiet_NaN());
  CHECK(evaluation_line(test, words_of(job)) ==
        "test at iteration 5: loss 2.0794, perplexity 8.000");
}

TEST_CASE("a job on tables counts rows, and a Clip layer makes no sequences", "[cli]") {
  pb::Job job;
  job.mutable_net_param()->add_layer()->set_type("HDF5Data");
  pb::LayerParameter& clip = *job.mutable_net_param()->add_layer();
  clip.set_type("Clip");
  clip.mutable_clip_param()->set_max(1);
  CHECK(words_of(job).rate() == "rows/s");
  CHECK_FALSE(words_of(job).has_perplexity);
}

TEST_CASE("a message's JSON has integers as numbers, 64-bit ones too", "[cli]") {
  pb::JobStatus job = two_workers();
  job.set_slack(std::numeric_limits<std::int64_t>::max());
  const auto json = nlohmann::json::parse(message_json(job));
  CHECK(json["job"] == 4);
  CHECK(json["slack"] == std::numeric_limits<std::int64_t>::max());
  CHECK(json["state"] == "RUNNING");
  CHECK(json["message"] == "");
  CHECK(json["workers"][0]["progress"]["staleness"][1]["reads"] == 100);
}

TEST_CASE("a job without a bound is shown without one", "[cli]") {
  pb::JobStatus job = two_workers();
  job.set_mode("ASYNC");
  job.set_slack(Slack::unbounded().clocks());
  const auto lines = progress_block(job, 80);
  CHECK(holds(lines, "no bound"));
  CHECK(!holds(lines, "922"));
}

TEST_CASE("a job before its first report is shown without dividing by nothing", "[cli]") {
  pb::JobStatus job;
  job.set_state(pb::SUBMITTED);
  job.set_mode("BSP");
  CHECK(holds(progress_block(job, 80), "iteration 0"));
  CHECK_FALSE(holds(progress_block(job, 80), " of 0"));
  CHECK(progress_line(job).find("nan") == std::string::npos);
  CHECK(holds(progress_block(job, 80), "loss -"));
  CHECK(!summary_lines({.job = job, .folder = "runs/x"}).empty());
}

TEST_CASE("the summary ends with accuracy, checksum and folder", "[cli]") {
  RunSummary run{
      .job = two_workers(), .wall_s = 21.5, .first_iteration_s = 1.25, .folder = "runs/x"};
  run.job.set_state(pb::DONE);
  run.job.set_parameters_sha256("abc123");
  run.job.add_evaluations()->set_accuracy(0.5);
  run.job.add_evaluations()->set_accuracy(0.9125);
  const auto lines = summary_lines(run);
  REQUIRE(lines.size() > 3);
  CHECK(lines[lines.size() - 3] == "test accuracy: 0.9125");
  CHECK(lines[lines.size() - 2] == "parameters sha256: abc123");
  CHECK(lines[lines.size() - 1] == "run folder: runs/x");
  CHECK(holds(lines, "SSP, slack 1"));
  CHECK(holds(lines, "1.25 s after the start"));
  CHECK(holds(lines, "worker0 25.0 %, worker1 25.0 %"));
  CHECK(holds(lines, "75.0 %"));
  CHECK(holds(lines, "images/s         2,000"));
}

TEST_CASE("the summary's JSON holds every figure, and no number for no bound", "[cli]") {
  RunSummary run{.job = two_workers(), .folder = "runs/x"};
  auto json = nlohmann::json::parse(summary_json(run));
  CHECK(json["slack"] == 1);
  CHECK(json["iterations"] == 250);
  CHECK(json["workers"].size() == 2);
  CHECK(json["staleness"][1]["reads"] == 200);
  CHECK(json["rate"] == 2000);
  CHECK(json["rate_unit"] == "images/s");
  run.words.items_per_record = 20;
  CHECK(nlohmann::json::parse(summary_json(run))["images_per_second"] == 100);
  run.job.set_mode("ASYNC");
  json = nlohmann::json::parse(summary_json(run));
  CHECK(json["slack"].is_null());
}

TEST_CASE("a net without an Accuracy has none in summary, status and progress, not 0", "[cli]") {
  RunSummary run{.job = two_workers(), .folder = "runs/x"};
  pb::Evaluation& test = *run.job.add_evaluations();
  test.set_clock(100);
  test.set_accuracy(std::numeric_limits<double>::quiet_NaN());
  test.set_loss(0.25);
  const auto lines = summary_lines(run);
  CHECK(lines[lines.size() - 2] == "test accuracy: -");
  CHECK(holds(lines, "100         -  0.2500"));
  const auto json = nlohmann::json::parse(summary_json(run));
  CHECK(json["evaluations"][0]["accuracy"].is_null());
  CHECK(json["evaluations"][0]["loss"] == 0.25);
  CHECK(evaluation_line(test) == "test at iteration 100: loss 0.2500");
  CHECK(holds(progress_block(run.job, 80), "accuracy -"));
  pb::StatusReply status;
  *status.add_jobs() = run.job;
  for (const std::string& line : status_view(status, 80)) {
    CHECK(line.find("nan") == std::string::npos);
  }
}

TEST_CASE("the status says how far whole backups are behind, and which shards have none", "[cli]") {
  pb::StatusReply status;
  pb::JobStatus& job = *status.add_jobs() = two_workers();
  const auto shown = [&](const std::string& line) { return holds(status_view(status, 80), line); };
  for (int i = 0; i < 3; ++i) {
    pb::ShardStatus& shard = *job.add_shards();
    shard.set_is_protected(true);
    shard.add_backups()->set_is_whole(true);
  }
  CHECK(shown("3 shards, each with a backup on another server"));
  CHECK_FALSE(shown("at most 0.0 s"));
  pb::BackupStatus& backup = *job.mutable_shards(1)->mutable_backups(0);
  backup.set_behind_s(0.44);
  backup.set_behind_clocks(3);
  CHECK(shown("3 shards, each with a backup on another server, at most 0.4 s (3 clocks) behind"));
  // A backup that is new says nothing of the others.
  pb::BackupStatus& other = *job.mutable_shards(0)->add_backups();
  other.set_behind_s(60);
  CHECK(shown("at most 0.4 s (3 clocks) behind"));
  for (pb::ShardStatus& shard : *job.mutable_shards()) shard.set_wanted_backups(2);
  job.mutable_shards(2)->set_problem("it has no memory");
  CHECK(
      shown("3 shards, with 1 of 2 backups on other servers, at most 0.4 s (3 clocks) behind "
            "(it has no memory)"));
  job.mutable_shards(0)->set_is_protected(false);
  job.mutable_shards(2)->set_is_protected(false);
  CHECK(shown("2 of 3 shards without a whole backup (number 0, 2): a lost server ends the job"));
  for (int i = 3; i < 12; ++i) job.add_shards();
  CHECK(shown("11 of 12 shards without a whole backup (number 0, 2, 3, 4, 5, 6, 7, 8, ...): a"));
}

TEST_CASE("the status says that no shard has a backup and why, and a training does not", "[cli]") {
  pb::StatusReply status;
  pb::JobStatus& job = *status.add_jobs() = two_workers();
  const std::string line = "no shard has a backup: the job started on one server";
  CHECK_FALSE(holds(status_view(status, 80), "backup"));
  job.mutable_no_backups()->set_shards(2);
  job.mutable_no_backups()->set_reason("the job started on one server");
  CHECK(holds(status_view(status, 80), line));
  CHECK_FALSE(holds(progress_block(job, 80), "backup"));
}

TEST_CASE("the status says why the newest checkpoint was not written", "[cli]") {
  pb::StatusReply status;
  pb::JobStatus& job = *status.add_jobs() = two_workers();
  const std::string failure = "the checkpoint at clock 20 is not written: /saved: No space left";
  CHECK_FALSE(holds(status_view(status, 80), failure));
  job.set_checkpoint_failure(failure);
  CHECK(holds(status_view(status, 80), failure));
  // Of a job that has ended too, and once.
  job.set_state(pb::DONE);
  CHECK(holds(status_view(status, 80), failure));
  job.set_message("stopped; " + failure);
  CHECK(holds(status_view(status, 80), failure));
  CHECK_FALSE(holds(status_view(status, 80), failure + "; " + failure));
}

TEST_CASE("the status says first why nothing new is confirmed", "[cli]") {
  pb::StatusReply status;
  CHECK_FALSE(holds(status_view(status, 80), "nothing new is confirmed"));
  status.set_unsaved("etcd at a:2379: database space exceeded");
  CHECK(status_view(status, 80).front() ==
        "nothing new is confirmed: etcd at a:2379: database space exceeded");
}

TEST_CASE("the status without a job explains how to submit one", "[cli]") {
  pb::StatusReply status;
  CHECK(holds(status_view(status, 80), "tautline submit"));
}

TEST_CASE("the queue shows which job has which workers and why others wait", "[cli]") {
  pb::StatusReply status;
  const auto waiting = [&status](std::uint64_t id, std::uint32_t place, const char* why) {
    pb::JobStatus& job = *status.add_jobs();
    job.set_job(id);
    job.set_name("cnn");
    job.set_place(place);
    job.set_message(why);
    job.set_required_workers(2);
    job.set_max_workers(2);
    return &job;
  };
  waiting(5, 0, "is held; tautline release 5 lets it start")->set_held(true);
  waiting(6, 2, "waits for job 4 to end")->set_max_workers(8);
  pb::JobStatus* first = waiting(7, 1, "user \"alice\" has 1 job running, and the quota is 1");
  first->set_user("alice");
  first->set_priority(9);
  pb::JobStatus& runs = *status.add_jobs();
  runs = two_workers();
  runs.set_max_workers(6);
  for (int i = 2; i < 5; ++i) {
    pb::WorkerStatus& worker = *runs.add_workers();
    worker.set_name("worker" + std::to_string(i));
    worker.set_state(i == 2 ? pb::PROCESS_LOST : pb::PROCESS_RUNNING);
  }
  for (const pb::WorkerStatus& worker : runs.workers()) *status.add_workers() = worker;
  CHECK(
      queue_lines(status) ==
      std::vector<std::string>{
          "4 workers busy, 0 idle", "place  job  name   user   state    priority  workers",
          ("         4  lenet  -      running         0   4 of 6  worker0, worker1, worker3, "
           "worker4; 1:00 left"),
          ("    1    7  cnn    alice  waiting         9        2  user \"alice\" has 1 job "
           "running, and the quota is 1"),
          "    2    6  cnn    -      waiting         0   2 to 8  waits for job 4 to end",
          ("         5  cnn    -      held            0        2  is held; tautline release 5 lets "
           "it start")});
  for (int i = 5; i < 7; ++i) {
    pb::WorkerStatus& worker = *status.mutable_jobs(3)->add_workers();
    worker.set_name("worker" + std::to_string(i));
    worker.set_state(pb::PROCESS_RUNNING);
  }
  CHECK(holds(queue_lines(status), " 6  worker0, worker1, worker3, worker4 and 2 more; 1:00 left"));
}

}  // namespace
}  // namespace taut::cli
