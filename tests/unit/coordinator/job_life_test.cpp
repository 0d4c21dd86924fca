#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/filled_cluster.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace taut {
namespace {

using test::fill;

}  // namespace

TEST_CASE("a job runs from submission to done, with the evaluating worker's results",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 2, 2);
  const pb::SubmitReply reply = cluster.submit(make_job(0, 100));
  CHECK(reply.error().empty());
  CHECK(reply.message().empty());
  REQUIRE(cluster.run_until_state(reply.job(), pb::DONE));
  const pb::JobStatus status = cluster.status(reply.job());
  CHECK(status.parameters_sha256() == "digest");
  REQUIRE(status.evaluations_size() == 1);
  CHECK(status.evaluations(0).clock() == 100);
  CHECK(status.mode() == "SSP");
  CHECK(status.slack() == 1);
  CHECK(status.max_iter() == 100);
  CHECK(status.message().empty());
  CHECK(status.running_s() > 0.9);
  REQUIRE(status.workers_size() == 2);
  CHECK(status.workers(0).state() == pb::PROCESS_FINISHED);
  CHECK(status.workers(1).progress().clock() == 100);
  cluster.run_for(1s);
  CHECK(cluster.at("s0").server.has_finished(reply.job()));
  CHECK(cluster.at("s1").server.has_finished(reply.job()));
  CHECK(cluster.status(reply.job()).running_s() == Approx(status.running_s()));
}

TEST_CASE("a member whose updates are bad is named, quarantined or fails the job",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  pb::Job definition = make_job(2);
  const auto start = [&](pb::Job::OnBadUpdate policy) {
    definition.set_on_bad_update(policy);
    const std::uint64_t job = cluster.submit(definition).job();
    REQUIRE(cluster.run_until_state(job, pb::RUNNING));
    cluster.at("s0").server.bad_updates = {{1, 2}};
    cluster.run_for(2s);
    return job;
  };
  const char* named = "worker \"w1\" has sent updates that are not finite, at 2 or more clocks";

  SECTION("refused") {
    const std::uint64_t job = start(pb::Job::REFUSE);
    CHECK_THAT(cluster.status(job).message(), StartsWith(named) && Contains("refused"));
    CHECK(cluster.status(job).workers(1).bad_updates() == 2);
    CHECK(cluster.status(job).workers(1).state() == pb::PROCESS_RUNNING);
  }
  SECTION("quarantined once it has sent four") {
    const std::uint64_t job = start(pb::Job::QUARANTINE);
    CHECK(cluster.status(job).workers(1).state() == pb::PROCESS_RUNNING);
    cluster.at("s0").server.bad_updates = {{1, 4}};
    REQUIRE(cluster.run_until([&] { return cluster.at("s0").server.state_of(job)->epoch() == 1; }));
    CHECK_THAT(cluster.status(job).message(), Contains("1 of 2 workers continue"));
    // Its process lives, and gets no share of this job any more; another one does.
    cluster.run_for(5s);
    CHECK(cluster.at("s0").server.state_of(job)->members_size() == 2);
    CHECK(cluster.at("w1").worker.job()->stop());
    cluster.add_worker("w2");
    REQUIRE(cluster.run_until([&] { return cluster.at("w2").worker.clock() > 20; }));
    CHECK(cluster.broken().empty());
  }
  SECTION("the last one that is left is not quarantined: the job fails") {
    const std::uint64_t job = start(pb::Job::QUARANTINE);
    cluster.at("s0").server.bad_updates = {{0, 4}, {1, 4}};
    REQUIRE(cluster.run_until_state(job, pb::FAILED));
    CHECK_THAT(cluster.status(job).message(), Contains("and no other worker is left"));
    CHECK(cluster.status(job).diverged());
  }
  SECTION("fails") {
    const std::uint64_t job = start(pb::Job::FAIL);
    REQUIRE(cluster.run_until_state(job, pb::FAILED));
    CHECK_THAT(cluster.status(job).message(), StartsWith(named));
  }
}

TEST_CASE("ranks follow the workers' names, and shards are numbered over the servers' names",
          "[coordinator]") {
  FakeCluster cluster;
  for (const char* name : {"w2", "w0", "w1"}) cluster.add_worker(name);
  cluster.add_server("b", 2);
  cluster.add_server("a", 3);
  cluster.run_for(1s);
  const std::uint64_t job = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w2").worker.clock() > 0; }));
  const pb::WorkerJob second = *cluster.at("w1").worker.job();
  CHECK(second.worker() == 1);
  CHECK(second.slot() == 1);
  CHECK(second.slots() == 3);
  CHECK_FALSE(second.evaluates());
  CHECK(cluster.at("w0").worker.job()->evaluates());
  REQUIRE(second.shards_size() == 5);
  CHECK(second.shards(0).address() == "a:7601");
  CHECK(second.shards(4).address() == "b:7602");
  CHECK(second.shards(4).shard() == 4);
  CHECK(cluster.at("a").server.state_of(job)->first_shard() == 0);
  CHECK(cluster.at("b").server.state_of(job)->first_shard() == 3);
  CHECK(cluster.at("b").server.state_of(job)->members_size() == 3);
}

TEST_CASE("how long a worker waits for a silent shard follows the limit of heartbeats",
          "[coordinator]") {
  for (const Duration limit : {Duration(2s), Duration(15s)}) {
    FakeCluster cluster;
    cluster.options.heartbeat_limit = limit;
    cluster.restart_coordinator(1s);
    fill(cluster, 1, 1);
    cluster.submit(make_job(0));
    REQUIRE(cluster.run_until([&] { return cluster.at("w0").worker.job().has_value(); }));
    CHECK(cluster.at("w0").worker.job()->silence_limit_s() == 2 * seconds(limit));
  }
}

TEST_CASE("no worker is notified of a job before every server has accepted it", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 2, 1);
  cluster.at("s1").server.set_busy(true);
  cluster.submit(make_job(0));
  cluster.run_for(5s);
  CHECK_FALSE(cluster.at("w0").worker.job());
  cluster.at("s1").server.set_busy(false);
  CHECK(cluster.run_until([&] { return cluster.at("w0").worker.clock() > 0; }));
}

TEST_CASE("one job runs at a time, and the next follows", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  const std::uint64_t first = cluster.submit(make_job(0, 50)).job();
  const pb::SubmitReply second = cluster.submit(make_job(0, 50));
  CHECK(second.job() == first + 1);
  CHECK(second.message() == "waits for job 1 to end");
  REQUIRE(cluster.run_until_state(first, pb::DONE));
  CHECK(cluster.run_until_state(second.job(), pb::DONE));
}

TEST_CASE("a stopped job's workers report, and it is stopped", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  const std::uint64_t job = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));

  SECTION("as soon as they have") {
    CHECK(cluster.stop(job).error().empty());
    CHECK(cluster.stop(job).message() == "job 1 is being stopped");
    CHECK(cluster.status(job).state() == pb::RUNNING);
    REQUIRE(cluster.run_until_state(job, pb::STOPPED));
    CHECK(cluster.at("w1").worker.job()->stop_reason() == "stopped by request");
    CHECK(cluster.status(job).workers(1).state() == pb::PROCESS_FINISHED);
  }
  SECTION("after a limit where they do not answer") {
    cluster.at("w1").worker.stuck = true;
    const TimePoint requested_at = cluster.now();
    CHECK(cluster.stop(job).error().empty());
    REQUIRE(cluster.run_until_state(job, pb::STOPPED));
    CHECK(cluster.now() - requested_at >= cluster.options.stop_limit);
  }
  cluster.run_for(1s);
  CHECK(cluster.at("s0").server.has_finished(job));
  CHECK(cluster.stop(job).error() == "job 1 has ended: it is stopped");
}

TEST_CASE("a job that waits is stopped at once", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  const std::uint64_t job = cluster.submit(make_job(5)).job();
  CHECK(cluster.stop(job).message() == "job 1 was stopped");
  CHECK(cluster.status(job).state() == pb::STOPPED);
}

TEST_CASE("commands on unknown or ended jobs report it", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  CHECK_THAT(cluster.stop(9).error(), StartsWith("job 9 does not exist"));
  CHECK_THAT(cluster.set_slack(9, 1).error(), StartsWith("job 9 does not exist"));
  const std::uint64_t job = cluster.submit(make_job(0, 10)).job();
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.set_slack(job, 1).error() == "job 1 has ended: it is done");
  pb::ControlMessage request;
  request.mutable_status_request()->set_job(9);
  CHECK_THAT(cluster.ask(request).status_reply().error(), StartsWith("job 9 does not exist"));
}

TEST_CASE("a worker that fails is lost, and the others continue", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  const std::uint64_t job = cluster.submit(make_job(0, 400)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  cluster.at("w1").worker.fails = "train-images.gz: no such file";
  REQUIRE(cluster.run_until(
      [&] { return cluster.status(job).workers(1).state() == pb::PROCESS_LOST; }));
  CHECK(cluster.status(job).message() ==
        "worker \"w1\": train-images.gz: no such file; 1 of 2 workers continue");
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.status(job).workers(0).progress().clock() == 400);
  CHECK(cluster.status(job).workers(1).state() == pb::PROCESS_LOST);
  // The next job finds both free.
  cluster.at("w1").worker.fails.clear();
  const std::uint64_t next = cluster.submit(make_job(2, 20)).job();
  CHECK(cluster.run_until_state(next, pb::DONE));
}

TEST_CASE("a job that every worker fails at ends at once, in the last one's words",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  const std::uint64_t job = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  cluster.at("w0").worker.fails = "train-images.gz: no such file";
  cluster.at("w1").worker.fails = "train-images.gz: no such file";
  const TimePoint failed = cluster.now();
  REQUIRE(cluster.run_until_state(job, pb::FAILED));
  CHECK(cluster.now() - failed < 5s);
  CHECK(cluster.status(job).message() ==
        "every worker failed; worker \"w1\": train-images.gz: no such file");
}

TEST_CASE("a training that has diverged ends the job, whichever worker saw it first",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  const std::uint64_t job = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  cluster.at("w1").worker.fails = "the loss is nan at iteration 11";
  cluster.at("w1").worker.diverges = true;
  REQUIRE(cluster.run_until_state(job, pb::FAILED));
  CHECK(cluster.status(job).message() == "worker \"w1\": the loss is nan at iteration 11");
  CHECK(cluster.status(job).workers(0).state() != pb::PROCESS_LOST);
}

TEST_CASE("a server that cannot run a job fails it before any worker hears of it",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 2, 1);
  cluster.at("s1").server.refuses = "solver type \"Magic\" is unknown";
  const std::uint64_t job = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until_state(job, pb::FAILED));
  CHECK(cluster.status(job).message() ==
        "server \"s1\" at s1:7601: solver type \"Magic\" is unknown");
  cluster.run_for(1s);
  CHECK_FALSE(cluster.at("w0").worker.job());
  CHECK(cluster.at("s0").server.has_finished(job));
}

TEST_CASE("a silent server fails the running job by name, and its workers are stopped",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 2, 2);
  const std::uint64_t job = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  cluster.kill("s1");
  cluster.run_for(14s);
  CHECK(cluster.status(job).state() == pb::RUNNING);
  REQUIRE(cluster.run_until_state(job, pb::FAILED));
  CHECK_THAT(cluster.status(job).message(),
             StartsWith("server \"s1\" at s1:7601 was silent for 15."));
  cluster.run_for(1s);
  CHECK(cluster.at("w0").worker.job()->stop());
  CHECK(cluster.at("w1").worker.job()->stop());
  CHECK_THAT(cluster.at("w1").worker.job()->stop_reason(), Contains("\"s1\""));
}

TEST_CASE("a job whose workers are all lost waits for another, and fails in the end",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  const std::uint64_t job = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  cluster.kill("w0");
  cluster.kill("w1");
  cluster.run_for(40s);
  CHECK(cluster.status(job).state() == pb::RUNNING);
  CHECK_THAT(cluster.status(job).message(), Contains("waits up to 60 s for another worker"));
  REQUIRE(cluster.run_until_state(job, pb::FAILED));
  CHECK_THAT(cluster.status(job).message(),
             StartsWith("every worker was lost") && Contains("silent for 15."));
}

TEST_CASE("the message of a job that waits for a worker does not grow with restarts",
          "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 1);
  const std::uint64_t job = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w0").worker.clock() > 10; }));
  cluster.kill("w0");
  cluster.run_for(20s);
  const std::string message = cluster.status(job).message();
  CHECK_THAT(message, Contains("waits up to 60 s for another worker"));
  for (int i = 0; i < 3; ++i) {
    cluster.restart_coordinator(1s);
    cluster.run_for(1s);
  }
  CHECK(cluster.status(job).message() == message);
}

TEST_CASE("a worker that joins after every other was lost continues the job", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 2, 2);
  const std::uint64_t job = cluster.submit(make_job(0, 2000)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 10; }));
  cluster.kill("w0");
  cluster.kill("w1");
  cluster.run_for(40s);
  cluster.add_worker("w7");
  REQUIRE(cluster.run_until([&] { return cluster.at("w7").worker.clock() > 10; }));
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.broken().empty());
}

TEST_CASE("a worker that has finished is not lost when it leaves", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 2);
  cluster.run_for(1s);
  const std::uint64_t job = cluster.submit(make_job(0, 300, 200)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 150; }));
  cluster.at("w1").worker.stuck = true;
  REQUIRE(cluster.run_until(
      [&] { return cluster.status(job).workers(0).state() == pb::PROCESS_FINISHED; }));
  cluster.kill("w0");
  cluster.run_for(20s);
  CHECK(cluster.status(job).workers(0).state() == pb::PROCESS_FINISHED);
  CHECK(cluster.status(job).epoch() == 0);
  cluster.at("w1").worker.stuck = false;
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.status(job).parameters_sha256() == "digest");
}

TEST_CASE("servers with backups learn that a member has finished while others train",
          "[coordinator]") {
  FakeCluster cluster;
  cluster.options.replication_interval = 4;
  cluster.restart_coordinator(1ms);
  fill(cluster, 2, 2);
  cluster.run_for(1s);
  const std::uint64_t job = cluster.submit(make_job(2, 300, 200)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w1").worker.clock() > 150; }));
  cluster.at("w1").worker.stuck = true;
  REQUIRE(cluster.run_until(
      [&] { return cluster.status(job).workers(0).state() == pb::PROCESS_FINISHED; }));
  cluster.run_for(1s);
  for (const char* name : {"s0", "s1"}) {
    const pb::ServerJob* state = cluster.at(name).server.state_of(job);
    REQUIRE(state != nullptr);
    CHECK(state->members(0).finished());
    CHECK_FALSE(state->members(1).finished());
  }
}

TEST_CASE("ranks go by the workers' names as people count", "[coordinator]") {
  FakeCluster cluster;
  fill(cluster, 1, 12);
  const std::uint64_t job = cluster.submit(make_job(0)).job();
  REQUIRE(cluster.run_until([&] { return cluster.at("s0").server.state_of(job) != nullptr; }));
  const pb::ServerJob state = *cluster.at("s0").server.state_of(job);
  REQUIRE(state.members_size() == 12);
  for (int rank = 0; rank < 12; ++rank) {
    CHECK(state.members(rank).name() == "w" + std::to_string(rank));
  }
}

}  // namespace taut
