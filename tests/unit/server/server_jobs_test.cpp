#include "server/server_jobs.hpp"

#include "tests/unit/server/job_maker.hpp"

using Catch::Matchers::Contains;

namespace taut::server {
namespace {

using test::JobMaker;

ShardReport report_of(std::uint64_t revision, std::int64_t max_done) {
  ShardReport report;
  report.job = JobId(7);
  report.revision = revision;
  report.max_done = Clock(max_done);
  return report;
}

}  // namespace

TEST_CASE("a revision is reported once every shard has taken it over", "[server_jobs]") {
  JobMaker maker(2);
  ServerJobs jobs(2);
  REQUIRE(jobs.take_job(maker.state) != nullptr);
  jobs.take_report(0, report_of(1, 0));
  CHECK(jobs.take_news().value_or(pb::Heartbeat()).jobs_size() == 0);
  jobs.take_report(1, report_of(1, 0));
  const auto news = jobs.take_news();
  REQUIRE(news);
  REQUIRE(news->jobs_size() == 1);
  CHECK(news->jobs(0).job() == 7);
  CHECK(news->jobs(0).revision() == 1);
  CHECK(news->jobs(0).error().empty());
  CHECK_FALSE(jobs.take_news());
}

TEST_CASE("a report is the minimum for the fenced and the maximum for all, over the shards",
          "[server_jobs]") {
  JobMaker maker(2);
  ServerJobs jobs(3);
  REQUIRE(jobs.take_job(maker.state) != nullptr);
  auto one = report_of(1, 4);
  one.fenced[WorkerId(1)] = Clock(3);
  auto two = report_of(1, 6);
  two.fenced[WorkerId(1)] = Clock(2);
  auto three = report_of(1, 5);
  three.fenced[WorkerId(1)] = Clock::never();
  jobs.take_report(0, one);
  jobs.take_report(1, two);
  jobs.take_report(2, three);
  const auto news = jobs.take_news();
  REQUIRE((news && news->jobs_size() == 1));
  CHECK(news->jobs(0).max_done() == 6);
  REQUIRE(news->jobs(0).fenced_size() == 1);
  CHECK(news->jobs(0).fenced(0).worker() == 1);
  CHECK(news->jobs(0).fenced(0).min_done() == 2);
}

TEST_CASE("a shard's answer to an older revision does not count for the newer one",
          "[server_jobs]") {
  JobMaker maker(1);
  ServerJobs jobs(1);
  REQUIRE(jobs.take_job(maker.state) != nullptr);
  maker.state.set_revision(2);
  REQUIRE(jobs.take_job(maker.state) != nullptr);
  jobs.take_report(0, report_of(1, 9));
  CHECK(jobs.take_news().value_or(pb::Heartbeat()).jobs_size() == 0);
  jobs.take_report(0, report_of(2, 1));
  const auto news = jobs.take_news();
  REQUIRE((news && news->jobs_size() == 1));
  CHECK(news->jobs(0).revision() == 2);
  CHECK(news->jobs(0).max_done() == 1);
}

TEST_CASE("a repeated revision changes nothing but is answered again", "[server_jobs]") {
  JobMaker maker(1);
  ServerJobs jobs(1);
  REQUIRE(jobs.take_job(maker.state) != nullptr);
  jobs.take_report(0, report_of(1, 0));
  REQUIRE(jobs.take_news());
  CHECK(jobs.take_job(maker.state) == nullptr);
  const auto news = jobs.take_news();
  REQUIRE(news);
  CHECK(news->jobs_size() == 1);
  maker.state.set_revision(0);
  CHECK(jobs.take_job(maker.state) == nullptr);
  CHECK(jobs.take_news()->jobs(0).revision() == 1);
}

TEST_CASE("a job that cannot work here is reported with the reason, and no shard hears of it",
          "[server_jobs]") {
  JobMaker maker(1);
  maker.solver().set_type("Adagrad");
  ServerJobs jobs(4);
  CHECK(jobs.take_job(maker.state) == nullptr);
  const auto news = jobs.take_news();
  REQUIRE((news && news->jobs_size() == 1));
  CHECK(news->jobs(0).revision() == 1);
  CHECK_THAT(news->jobs(0).error(), Contains("Adagrad"));
  // A corrected revision is taken over.
  maker.solver().set_type("Adam");
  maker.state.set_revision(2);
  CHECK(jobs.take_job(maker.state) != nullptr);
  CHECK(jobs.take_news().value_or(pb::Heartbeat()).jobs_size() == 0);
}

TEST_CASE("reports of unknown jobs are dropped", "[server_jobs]") {
  ServerJobs jobs(1);
  jobs.take_report(0, report_of(1, 0));
  CHECK_FALSE(jobs.take_news());
}

TEST_CASE("after the coordinator has forgotten this server no earlier state is reported",
          "[server_jobs]") {
  JobMaker maker(1);
  ServerJobs jobs(1);
  REQUIRE(jobs.take_job(maker.state) != nullptr);
  const auto over = jobs.clear();
  // The shards must forget it too: the coordinator may number its jobs again.
  REQUIRE(over.size() == 1);
  CHECK(over[0]->job == JobId(7));
  CHECK(over[0]->finished);
  jobs.take_report(0, report_of(1, 0));
  CHECK(jobs.take_news().value_or(pb::Heartbeat()).jobs_size() == 0);
  // The same revision is news to a server that has forgotten it.
  CHECK(jobs.take_job(maker.state) != nullptr);
  // What the shards report of the old one is no answer to the new one.
  jobs.take_report(0, report_of(over[0]->revision, 0));
  CHECK(jobs.take_news().value_or(pb::Heartbeat()).jobs_size() == 0);
}

TEST_CASE("the message that a job is over needs only its number", "[server_jobs]") {
  pb::ServerJob over;
  over.set_job(7);
  over.set_revision(3);
  over.set_finished(true);
  ServerJobs jobs(1);
  const auto view = jobs.take_job(over);
  REQUIRE(view != nullptr);
  CHECK(view->finished);
  jobs.take_report(0, report_of(3, 0));
  CHECK(jobs.take_news()->jobs(0).revision() == 3);
}

}  // namespace taut::server
