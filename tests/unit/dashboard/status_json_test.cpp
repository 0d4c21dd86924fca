#include "server/dashboard/status_json.hpp"

#include <chrono>
#include <limits>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "server/dashboard/assets.hpp"
#include "server/dashboard/job_history.hpp"
#include "server/dashboard/server_metrics.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/dashboard/status_maker.hpp"

namespace taut::dashboard {
namespace {

/// The page's own path and those of the files that it names.
std::vector<std::string> files_of_page() {
  static const std::regex kFile(R"re((?:href|src)="(/\w+\.\w+)")re");
  std::vector<std::string> paths{"/"};
  const std::string page(asset("/")->bytes);
  for (std::sregex_iterator found(page.begin(), page.end(), kFile), end; found != end; ++found) {
    paths.push_back((*found)[1]);
  }
  return paths;
}

TEST_CASE("the shown job's workers are columns, and its figures omit lost ones", "[dashboard]") {
  pb::StatusReply status = make_status(6);
  status.mutable_jobs(0)->mutable_workers(5)->set_state(pb::PROCESS_LOST);
  status.mutable_jobs(0)->mutable_workers(5)->mutable_progress()->set_clock(3);
  const auto json = status_json(status, 1000);
  const auto& job = json["job"];
  CHECK(job["id"] == 7);
  CHECK(job["clock"] == 100);
  CHECK(job["fastest"] == 103);
  CHECK(job["rate"] == 6000);
  CHECK(job["rate_unit"] == "images/s");
  CHECK(job["images_per_second"] == job["rate"]);
  CHECK(job["left_s"].is_null());
  CHECK(job["version"].is_null());
  CHECK(job["by_worker"]["at"][0].is_null());
  CHECK(job["by_worker"]["name"].size() == 6);
  CHECK(job["by_worker"]["rate"].size() == 6);
  CHECK(job["by_worker"]["images_per_second"] == job["by_worker"]["rate"]);
  CHECK(job["by_worker"]["clock"][5] == 3);
  CHECK(job["staleness"].size() == 4);
  CHECK(job["staleness"][0] == nlohmann::json::array({0, 150}));
  CHECK(json["servers"][0]["shards"].size() == 1);
}

TEST_CASE("the queue has the first 50 jobs, those that run before those that wait by their places",
          "[dashboard]") {
  pb::StatusReply status = make_status(20);
  status.mutable_jobs(0)->set_max_workers(32);
  status.mutable_jobs(0)->mutable_workers(0)->set_state(pb::PROCESS_LOST);
  for (std::uint32_t i = 0; i < 60; ++i) {
    pb::JobStatus& job = *status.add_jobs();
    job.set_job(100 + i);
    job.set_held(i == 0);
    job.set_place(i == 0 ? 0 : 60 - i);
    job.set_user("alice");
    job.set_message("waits");
  }
  status.add_jobs()->set_state(pb::DONE);
  const auto queue = status_json(status, 1000)["queue"];
  CHECK(queue["running"] == 1);
  CHECK(queue["waiting"] == 60);
  REQUIRE(queue["jobs"].size() == 50);
  const auto& first = queue["jobs"][0];
  CHECK(first["id"] == 7);
  CHECK(first["working"] == 19);
  CHECK(first["max_workers"] == 32);
  CHECK(first["place"].is_null());
  CHECK(first["worker_names"].size() == 16);
  CHECK(first["worker_names"][0] == status.jobs(0).workers(1).name());
  CHECK(queue["jobs"][1]["id"] == 159);
  CHECK(queue["jobs"][1]["place"] == 1);
  CHECK(queue["jobs"][1]["message"] == "waits");
  CHECK(queue["jobs"][49]["place"] == 49);
  // One that has been waiting for long is not among the newest 50.
  CHECK(status_json(status, 1000)["jobs"].size() == 50);
}

TEST_CASE("clocks on the page are one shard's, of one moment", "[dashboard]") {
  pb::StatusReply status = make_status(3);
  pb::JobStatus& job = *status.mutable_jobs(0);
  job.mutable_workers(2)->set_is_stale(true);
  job.set_left_s(42);
  job.mutable_clocks()->set_version(205);
  for (std::uint32_t i = 0; i < 2; ++i) {
    pb::JobClocks::MemberClock& member = *job.mutable_clocks()->add_members();
    member.set_worker(i);
    member.set_clock(205 + 4 * i);
  }
  const auto json = status_json(status, 1000);
  const auto& shown = json["job"];
  CHECK(shown["clock"] == 205);
  CHECK(shown["fastest"] == 209);
  CHECK(shown["version"] == 205);
  CHECK(shown["left_s"] == 42);
  CHECK(shown["by_worker"]["at"] == nlohmann::json::array({205, 209, nullptr}));
  CHECK(shown["by_worker"]["is_stale"] == nlohmann::json::array({false, false, true}));
}

TEST_CASE("no bound, no loss and odd names are still JSON", "[dashboard]") {
  pb::StatusReply status = make_status(1);
  status.mutable_jobs(0)->set_slack(Slack::unbounded().clocks());
  status.mutable_jobs(0)->set_mode("ASYNC");
  status.mutable_jobs(0)->set_name("a\"b<script>\xc3\xa9");
  status.mutable_jobs(0)->mutable_workers(0)->mutable_progress()->set_loss(
      std::numeric_limits<double>::quiet_NaN());
  const auto json = nlohmann::json::parse(to_text(status_json(status, 1000)));
  CHECK(json["job"]["slack"].is_null());
  CHECK(json["job"]["loss"].is_null());
  CHECK(json["job"]["name"] == "a\"b<script>\xc3\xa9");
  CHECK(status_json(pb::StatusReply(), 1000)["job"].is_null());
}

TEST_CASE("the page has why the newest checkpoint was not written", "[dashboard]") {
  pb::StatusReply status = make_status(1);
  CHECK(status_json(status, 1000)["job"]["checkpoint_failure"] == "");
  status.mutable_jobs(0)->set_checkpoint_failure("the disk is full");
  CHECK(status_json(status, 1000)["job"]["checkpoint_failure"] == "the disk is full");
}

TEST_CASE("the refused clocks of a worker that was lost and has joined again are one figure",
          "[dashboard]") {
  pb::StatusReply status = make_status(2);
  pb::JobStatus& job = *status.mutable_jobs(0);
  job.mutable_workers(0)->set_state(pb::PROCESS_LOST);
  job.mutable_workers(0)->set_bad_updates(2);
  job.mutable_workers(1)->set_name(job.workers(0).name());
  job.mutable_workers(1)->set_bad_updates(3);
  metrics::Scrape scrape;
  add_cluster(scrape, status);
  std::istringstream text(scrape.text());
  std::vector<std::string> figures;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("tautline_job_refused_update_clocks{")) figures.push_back(line);
  }
  REQUIRE(figures.size() == 1);
  CHECK(figures[0].ends_with("} 5"));
}

TEST_CASE("a test without an accuracy is null on the page and absent from the metrics",
          "[dashboard]") {
  pb::StatusReply status = make_status(1);
  pb::Evaluation& test = *status.mutable_jobs(0)->add_evaluations();
  test.set_accuracy(std::numeric_limits<double>::quiet_NaN());
  test.set_loss(0.25);
  const auto json = nlohmann::json::parse(to_text(status_json(status, 1000)));
  CHECK(json["job"]["accuracy"].is_null());
  CHECK(json["job"]["tests"]["accuracy"][0].is_null());
  CHECK(json["job"]["tests"]["loss"][0] == 0.25);
  const auto scraped = [&] {
    metrics::Scrape scrape;
    add_cluster(scrape, status);
    return scrape.text();
  };
  CHECK(scraped().find("job_test_accuracy") == std::string::npos);
  test.set_accuracy(0.5);
  CHECK(scraped().find("job_test_accuracy") != std::string::npos);
}

TEST_CASE("the page has how far each backup lags, and the metrics the whole one furthest behind",
          "[dashboard]") {
  pb::StatusReply status = make_status(1);
  const auto add_backup = [](pb::ShardStatus& shard, bool is_whole, double behind_s) {
    pb::BackupStatus& backup = *shard.add_backups();
    backup.set_is_whole(is_whole);
    backup.set_behind_s(behind_s);
    backup.set_behind_clocks(static_cast<std::int64_t>(4 * behind_s));
  };
  const auto has_line = [&](const std::string& line) {
    metrics::Scrape scrape;
    add_cluster(scrape, status);
    return scrape.text().find(line + "\n") != std::string::npos;
  };
  CHECK(has_line("tautline_job_backup_lag_seconds{job=\"7\",name=\"lenet\"} 0"));
  add_backup(*status.mutable_jobs(0)->add_shards(), true, 0.25);
  pb::ShardStatus& shard = *status.mutable_jobs(0)->add_shards();
  add_backup(shard, true, 1.5);
  add_backup(shard, false, 30);
  shard.add_backups()->set_is_whole(true);
  CHECK(has_line("tautline_job_backup_lag_seconds{job=\"7\",name=\"lenet\"} 1.5"));
  CHECK(has_line("tautline_job_backup_lag_clocks{job=\"7\",name=\"lenet\"} 6"));
  const auto shards = status_json(status, 1000)["job"]["shards"];
  CHECK(shards[0]["backups"][0]["behind_s"] == 0.25);
  CHECK(shards[0]["backups"][0]["behind_clocks"] == 1);
  CHECK(shards[1]["backups"][1]["behind_s"] == 30);
  CHECK(shards[1]["backups"][2]["behind_s"].is_null());
  CHECK(shards[1]["backups"][2]["behind_clocks"].is_null());
}

TEST_CASE("the metrics have each shard's whole backups and how far they lag", "[dashboard]") {
  pb::StatusReply status = make_status(1);
  pb::JobStatus& job = *status.mutable_jobs(0);
  const auto figure = [&](const std::string& metric, int shard) -> std::string {
    metrics::Scrape scrape;
    add_cluster(scrape, status);
    const std::string series = "tautline_job_shard_" + metric +
                               "{job=\"7\",name=\"lenet\",shard=\"" + std::to_string(shard) +
                               "\"} ";
    std::istringstream text(scrape.text());
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with(series)) return line.substr(series.size());
    }
    return "none";
  };
  CHECK(figure("whole_backups", 0) == "none");
  job.mutable_no_backups()->set_shards(2);
  CHECK(figure("whole_backups", 0) == "0");
  CHECK(figure("whole_backups", 1) == "0");
  CHECK(figure("backup_lag_seconds", 1) == "0");
  CHECK(figure("whole_backups", 2) == "none");

  job.clear_no_backups();
  pb::ShardStatus& first = *job.add_shards();
  const auto add_backup = [&](bool is_whole, double behind_s) {
    pb::BackupStatus& backup = *first.add_backups();
    backup.set_is_whole(is_whole);
    backup.set_behind_s(behind_s);
  };
  add_backup(true, 0.25);
  add_backup(true, 1.5);
  add_backup(false, 30);
  pb::BackupStatus& other = *job.add_shards()->add_backups();
  other.set_behind_s(4);
  CHECK(figure("whole_backups", 0) == "2");
  CHECK(figure("whole_backups", 1) == "0");
  CHECK(figure("backup_lag_seconds", 0) == "1.5");
  CHECK(figure("backup_lag_seconds", 1) == "0");
  other.set_is_whole(true);
  CHECK(figure("whole_backups", 1) == "1");
  CHECK(figure("backup_lag_seconds", 1) == "4");
}

TEST_CASE("each shard of a running job without backups counts as unprotected", "[dashboard]") {
  pb::StatusReply status = make_status(1);
  pb::JobStatus& job = *status.mutable_jobs(0);
  const auto has_line = [&](const std::string& line) {
    metrics::Scrape scrape;
    add_cluster(scrape, status);
    return scrape.text().find(line + "\n") != std::string::npos;
  };
  job.mutable_no_backups()->set_shards(3);
  job.mutable_no_backups()->set_reason("the job started on one server");
  CHECK(has_line("tautline_job_unprotected_shards{job=\"7\",name=\"lenet\"} 3"));
  CHECK(has_line("tautline_job_wanted_backups{job=\"7\",name=\"lenet\"} 0"));
  const auto shown = status_json(status, 1000)["job"];
  CHECK(shown["shards"].empty());
  CHECK(shown["no_backups"]["shards"] == 3);
  CHECK(shown["no_backups"]["reason"] == "the job started on one server");
  // One whose shards have backups counts those whose backups are not whole.
  job.clear_no_backups();
  job.add_shards()->set_is_protected(true);
  job.add_shards();
  CHECK(has_line("tautline_job_unprotected_shards{job=\"7\",name=\"lenet\"} 1"));
  CHECK(has_line("tautline_job_wanted_backups{job=\"7\",name=\"lenet\"} 1"));
  CHECK(status_json(status, 1000)["job"]["no_backups"].is_null());
}

TEST_CASE("the running job is shown, or else the newest, or the requested one", "[dashboard]") {
  pb::StatusReply status = make_status(1);
  for (const std::uint64_t id : {8U, 9U}) {
    pb::JobStatus& job = *status.add_jobs();
    job.set_job(id);
    job.set_state(pb::SUBMITTED);
  }
  CHECK(shown_job(status)->job() == 7);
  status.mutable_jobs(0)->set_state(pb::DONE);
  CHECK(shown_job(status)->job() == 9);
  CHECK(shown_job(status, 8)->job() == 8);
  CHECK(shown_job(status, 5) == nullptr);
}

TEST_CASE("an update of 1,000 workers and 64 shards is small and quick, and so is the page",
          "[dashboard]") {
  const pb::StatusReply status = make_status(1000, 8, 8);
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = to_text(status_json(status, 1000));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(text.size() < 150'000);
  CHECK(took.count() < 0.2);
  std::size_t page = text.size();
  REQUIRE(files_of_page().size() > 3);
  for (const std::string& path : files_of_page()) {
    const Asset* file = asset(path);
    REQUIRE(file != nullptr);
    CHECK_FALSE(file->bytes.empty());
    page += file->bytes.size();
  }
  CHECK(page < 1'000'000);
}

TEST_CASE("the page names no outside address", "[dashboard]") {
  for (const std::string& path : files_of_page()) {
    if (path == "/uplot.js") continue;
    INFO(path);
    CHECK(asset(path)->bytes.find("//") == asset(path)->bytes.find("// "));
    CHECK(asset(path)->bytes.find("http") == std::string_view::npos);
  }
}

TEST_CASE("a history keeps a whole job in a bounded number of points", "[dashboard]") {
  JobHistory history;
  pb::StatusReply status = make_status(2);
  pb::JobStatus& job = *status.mutable_jobs(0);
  for (int i = 1; i <= 10000; ++i) {
    job.set_running_s(0.5 * i);
    for (pb::WorkerStatus& worker : *job.mutable_workers()) {
      worker.mutable_progress()->set_clock(10 * i);
    }
    history.add(job);
    history.add(job);  // nothing has moved on
  }
  const auto json = history.of(7);
  CHECK(json["t"].size() < JobHistory::kMaxPoints);
  CHECK(json["t"].size() > JobHistory::kMaxPoints / 3);
  CHECK(json["clock"].front() == 10);
  CHECK(json["rate"].front() == 2000);
  CHECK(json["images_per_second"] == json["rate"]);
  CHECK(json["clock"].back().get<int>() > 99000);
  CHECK(history.of(8).is_null());
}

TEST_CASE("the history has the changes of the slack, with the reads until then", "[dashboard]") {
  JobHistory history;
  pb::JobStatus job = make_status(2).jobs(0);
  history.add(job);
  CHECK(history.of(7)["changes"].empty());
  job.set_slack(Slack::unbounded().clocks());
  job.set_running_s(20);
  history.add(job);
  history.add(job);
  const auto changes = history.of(7)["changes"];
  REQUIRE(changes.size() == 1);
  CHECK(changes[0]["from"] == 4);
  CHECK(changes[0]["to"].is_null());
  CHECK(changes[0]["t"] == 20);
  CHECK(changes[0]["staleness"][0] == nlohmann::json({0, 50}));
}

}  // namespace
}  // namespace taut::dashboard
