// What a status says of a job and its processes.
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/filled_cluster.hpp"

using namespace std::chrono_literals;

namespace taut {
namespace {

using test::fill;

}  // namespace

TEST_CASE("a test is kept once, however often it is reported", "[coordinator]") {
  JobRecord job({}, TimePoint());
  pb::Member member;
  member.set_leave_clock(Clock::never().value());
  job.add_member(member, 1, "");
  pb::Progress progress;
  for (const std::int64_t clock : {100, 200, 200, 300}) {
    progress.set_clock(clock);
    progress.add_evaluations()->set_clock(clock);
    job.take_progress(0, progress, TimePoint());
    job.take_progress(0, progress, TimePoint());
  }
  REQUIRE(job.stored().evaluations_size() == 3);
  for (int i = 0; i < 3; ++i) CHECK(job.stored().evaluations(i).clock() == 100 * (i + 1));
  (void)job.take_changed();
  job.take_progress(0, progress, TimePoint());
  CHECK_FALSE(job.take_changed());
}

TEST_CASE("a job's rate is the live workers' while it runs, and its own when it has ended",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  const std::uint64_t job = cluster.submit(make_job(2, 1000)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w0").worker.clock() > 200; }));
  // A fake worker reports 1000 records/s, and trains ten in a clock of a hundredth of a second.
  CHECK(cluster.status(job).rate() == Approx(2000));
  CHECK(cluster.status(job).rate_unit() == "records/s");
  cluster.at("w1").cut_off = true;
  cluster.run_for(3500ms);
  const pb::JobStatus silent = cluster.status(job);
  CHECK(silent.workers(1).is_stale());
  CHECK(silent.workers(1).rate() == 0);
  CHECK(silent.rate() == Approx(1000));
  cluster.at("w1").cut_off = false;
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  const pb::JobStatus done = cluster.status(job);
  // 2 x 1000 clocks of ten records, in the ten seconds of each worker where they are the same ones.
  CHECK(done.rate() <= Approx(2000));
  CHECK(done.rate() > 1000);
  CHECK(done.left_s() == 0);
}

TEST_CASE("the time left counts no clock from before the checkpoint", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  const std::uint64_t job = cluster.submit(make_job(1, 1000)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w0").worker.clock() > 20; }));
  cluster.run_for(5s);
  const pb::JobStatus status = cluster.status(job);
  const pb::Progress& worker = status.workers(0).progress();
  const auto done = static_cast<double>(worker.clock());
  CHECK(status.left_s() == Approx(worker.trained_s() * (1000 - done) / done));
}

TEST_CASE("a job that has just started or resumed has no time left until its pace is known",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  const std::uint64_t job = cluster.submit(make_job(1, 1000)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w0").worker.clock() > 20; }));
  cluster.run_for(1s);
  const pb::JobStatus early = cluster.status(job);
  CHECK(early.workers(0).progress().clock() > 20);
  CHECK(early.left_s() == 0);
  cluster.run_for(4s);
  CHECK(cluster.status(job).left_s() > 0);
}

TEST_CASE("the status lists jobs, servers and workers with their silence", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  const std::uint64_t job = cluster.submit(make_job(1)).job();
  REQUIRE(cluster.run_until([&] { return cluster.status(job).workers(0).progress().clock() > 0; }));
  cluster.kill("w1");
  cluster.run_for(20s);
  pb::ControlMessage request;
  request.mutable_status_request();
  const pb::StatusReply reply = cluster.ask(request).status_reply();
  REQUIRE(reply.jobs_size() == 1);
  REQUIRE(reply.servers_size() == 1);
  CHECK(reply.servers(0).state() == pb::PROCESS_LIVE);
  CHECK(reply.servers(0).shards() == 2);
  REQUIRE(reply.workers_size() == 2);
  CHECK(reply.workers(0).state() == pb::PROCESS_RUNNING);
  CHECK(reply.workers(0).device() == "cpu");
  CHECK(reply.workers(0).silent_s() < 1);
  CHECK(reply.workers(1).state() == pb::PROCESS_LOST);
  CHECK(reply.workers(1).silent_s() > 19);
}

}  // namespace taut
