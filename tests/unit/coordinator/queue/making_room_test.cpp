// Jobs that are stopped, shrink or grow as those of higher priority come and go.
#include <algorithm>
#include <cmath>

#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/queue/jobs_cluster.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace taut {
namespace {

using test::elastic_job;
using test::Jobs;
using test::Names;
using test::with_priority;

TEST_CASE("a job of higher priority gets the workers of another, which continues later",
          "[coordinator][queue]") {
  Jobs cluster(2, true);
  const std::uint64_t low = cluster.start(make_job(2, 5000));
  REQUIRE(
      cluster.run_until([&] { return cluster.status(low).workers(0).progress().clock() > 20; }));
  pb::Job definition = make_job(2, 100);
  definition.set_priority(1);
  const std::uint64_t high = cluster.submit(definition).job();
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  const pb::JobStatus stopped = cluster.status(low);
  CHECK(stopped.state() == pb::STOPPED);
  CHECK_THAT(stopped.message(),
             Contains("makes room for a job of higher priority; saved at clock "));
  const std::uint64_t rest = stopped.restarted_as();
  REQUIRE(rest == high + 1);
  CHECK(cluster.status(rest).message() == "waits for job 2 to end");
  REQUIRE(cluster.run_until_state(high, pb::DONE));
  REQUIRE(cluster.run_until_state(rest, pb::RUNNING));
  CHECK(cluster.status(rest).resume().clock() == stopped.checkpoints(0).clock());
  CHECK(cluster.broken().empty());
}

TEST_CASE("a job that made room is expected to train for the rest of its time alone",
          "[coordinator][queue]") {
  Jobs cluster(2, true);
  pb::Job definition = make_job(2, 5000);
  definition.set_expected_s(1000);
  const std::uint64_t low = cluster.start(definition);
  REQUIRE(
      cluster.run_until([&] { return cluster.status(low).workers(0).progress().clock() > 20; }));
  definition.set_priority(1);
  REQUIRE(cluster.run_until_state(cluster.submit(definition).job(), pb::RUNNING));
  pb::ControlMessage request;
  request.mutable_status_request()->set_job(cluster.status(low).restarted_as());
  request.mutable_status_request()->set_definition(true);
  const pb::ControlMessage answer = cluster.ask(request);
  REQUIRE(answer.status_reply().jobs_size() == 1);
  const pb::JobStatus& rest = answer.status_reply().jobs(0);
  CHECK(rest.resume().clock() > 20);
  const double expected = 1000.0 * static_cast<double>(5000 - rest.resume().clock()) / 5000;
  CHECK(std::abs(rest.definition().expected_s() - expected) < 1e-6);
}

TEST_CASE("a job of the same priority waits, and so does any where pre-emption is off",
          "[coordinator][queue]") {
  const bool preempts = GENERATE(false, true);
  Jobs cluster(2, preempts);
  const std::uint64_t first = cluster.start(make_job(2));
  pb::Job definition = make_job(2);
  definition.set_priority(preempts ? 0 : 5);
  const std::uint64_t second = cluster.submit(definition).job();
  cluster.run_for(3s);
  CHECK(cluster.status(first).state() == pb::RUNNING);
  CHECK(cluster.status(second).state() == pb::SUBMITTED);
}

TEST_CASE("a user who stops a job that makes room stops it for good", "[coordinator][queue]") {
  Jobs cluster(2, true);
  const std::uint64_t low = cluster.start(make_job(2));
  cluster.at("s0").server.stalls = true;  // its checkpoint takes a while
  pb::Job definition = make_job(2);
  definition.set_priority(1);
  const std::uint64_t high = cluster.submit(definition).job();
  cluster.run_for(1s);
  REQUIRE(cluster.status(low).state() == pb::RUNNING);
  REQUIRE(cluster.stop(low).error().empty());
  REQUIRE(cluster.run_until_state(low, pb::STOPPED));
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  CHECK(cluster.status(low).restarted_as() == 0);
}

TEST_CASE("a job that cannot be saved makes no room until it can be", "[coordinator][queue]") {
  Jobs cluster(2, true);
  const std::uint64_t low = cluster.start(make_job(2));
  const auto clock = [&] { return cluster.status(low).workers(0).progress().clock(); };
  REQUIRE(cluster.run_until([&] { return clock() > 20; }));
  SECTION("a disk is full") {
    cluster.at("s0").server.disk = "the disk is full";
  }
  SECTION("it takes too long") {
    cluster.options.save_limit = 5s;
    cluster.restart_coordinator(1s);
    cluster.run_for(2s);
    cluster.at("s0").server.stalls = true;
  }
  const std::uint64_t high = cluster.submit(with_priority(make_job(2, 100), 1)).job();
  REQUIRE(cluster.run_until(
      [&] { return cluster.status(low).message().find("makes no room") != std::string::npos; }));
  // It trains on, with all that it has trained.
  const std::int64_t before = clock();
  REQUIRE(cluster.run_until([&] { return clock() > before + 20; }));
  CHECK(cluster.status(low).state() == pb::RUNNING);
  CHECK(cluster.status(high).state() == pb::SUBMITTED);
  cluster.at("s0").server.disk.clear();
  cluster.at("s0").server.stalls = false;
  REQUIRE(cluster.run_until([&] { return cluster.status(high).state() == pb::RUNNING; }, 90s));
  const pb::JobStatus stopped = cluster.status(low);
  CHECK(stopped.state() == pb::STOPPED);
  CHECK_THAT(stopped.message(), Contains("saved at clock "));
  REQUIRE(stopped.restarted_as() != 0);
  CHECK(cluster.status(stopped.restarted_as()).resume().clock() > before);
  CHECK(cluster.broken().empty());
}

TEST_CASE("a job of higher priority gets workers of an elastic one, which gets them back",
          "[coordinator][queue]") {
  Jobs cluster(3);
  const std::uint64_t low = cluster.start(elastic_job(1, 3, 3000));
  REQUIRE(cluster.workers_of(low) == Names{"w0", "w1", "w2"});
  const auto clock = [&] {
    const pb::JobStatus now = cluster.status(low);
    std::int64_t highest = 0;
    for (const auto& worker : now.workers()) {
      highest = std::max(highest, worker.progress().clock());
    }
    return highest;
  };
  REQUIRE(cluster.run_until([&] { return clock() > 20; }));
  const std::uint64_t high = cluster.submit(with_priority(make_job(2), 1)).job();
  REQUIRE(cluster.run_until([&] { return cluster.status(low).workers(2).progress().left(); }, 2s));
  REQUIRE(cluster.run_until([&] { return cluster.status(high).state() == pb::RUNNING; }, 1s));
  CHECK(cluster.workers_of(low) == Names{"w0"});
  CHECK(cluster.workers_of(high) == Names{"w1", "w2"});
  CHECK(std::ranges::count_if(cluster.notes, [](const std::string& note) {
          return note ==
                 "job 1: shrinks to 1 worker for a job of higher priority: \"w2\", \"w1\" leave it";
        }) == 1);
  const std::int64_t before = clock();
  REQUIRE(cluster.run_until([&] { return clock() > before + 20; }));
  REQUIRE(cluster.stop(high).error().empty());
  REQUIRE(cluster.run_until([&] { return cluster.workers_of(low).size() == 3; }));
  // Nothing was saved, and nothing begins again.
  CHECK(cluster.status(low).checkpoints().empty());
  REQUIRE(cluster.run_until_state(low, pb::DONE));
  CHECK(cluster.status(low).message().empty());
  CHECK(cluster.broken().empty());
}

TEST_CASE("a job shrinks while messages are lost and the coordinator restarts",
          "[coordinator][queue]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    FakeNetwork network;
    network.drop = 0.2;
    network.duplicate = 0.2;
    network.delay_max = 200ms;
    Jobs cluster(4, false, seed, network);
    REQUIRE(cluster.run_until([&] { return cluster.submit(elastic_job(2, 4), 7).job() == 1; }));
    REQUIRE(cluster.run_until([&] { return cluster.workers_of(1).size() == 4; }));
    const std::uint64_t high = cluster.submit(with_priority(make_job(2), 1)).job();
    cluster.run_for(std::chrono::milliseconds(100 * seed));
    cluster.restart_coordinator(1s);
    REQUIRE(cluster.run_until_state(high, pb::RUNNING));
    CHECK(cluster.workers_of(1).size() == 2);
    CHECK(cluster.workers_of(high).size() == 2);
    REQUIRE(cluster.stop(high).error().empty());
    REQUIRE(cluster.run_until([&] { return cluster.workers_of(1).size() == 4; }));
    CHECK(cluster.broken() == std::vector<std::string>());
  }
}

TEST_CASE("after a restart no job shrinks before the processes that it has are back",
          "[coordinator][queue][store]") {
  Jobs cluster(3);
  const std::uint64_t low = cluster.start(elastic_job(1, 2));
  REQUIRE(cluster.workers_of(low) == Names{"w0", "w1"});
  cluster.at("w1").cut_off = true;
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  const std::uint64_t high = cluster.submit(with_priority(make_job(2), 1)).job();
  CHECK(cluster.status(high).message() ==
        "waits for processes of running jobs to reconnect after the coordinator's restart");
  cluster.run_for(5s);
  CHECK(cluster.workers_of(low) == Names{"w0", "w1"});
  CHECK(cluster.status(high).state() == pb::SUBMITTED);
  cluster.at("w1").cut_off = false;
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  CHECK(cluster.workers_of(low).size() == 1);
  CHECK(cluster.broken().empty());
}

TEST_CASE("after a restart processes have the same time to return when the coordinator pauses",
          "[coordinator][queue][store]") {
  Jobs cluster(3);
  const std::uint64_t low = cluster.start(elastic_job(1, 2));
  REQUIRE(cluster.workers_of(low) == Names{"w0", "w1"});
  cluster.at("w1").cut_off = true;
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  const std::uint64_t high = cluster.submit(with_priority(make_job(2), 1)).job();
  cluster.pause_coordinator(10s);
  // The limit is past, and this coordinator has run for half of it.
  cluster.run_for(6s);
  CHECK(cluster.status(high).message() ==
        "waits for processes of running jobs to reconnect after the coordinator's restart");
  CHECK(cluster.workers_of(low) == Names{"w0", "w1"});
  cluster.at("w1").cut_off = false;
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  CHECK(cluster.workers_of(low).size() == 1);
  CHECK(cluster.broken().empty());
}

TEST_CASE("after a restart no job makes room while idle workers may yet return",
          "[coordinator][queue][store]") {
  Jobs cluster(4, true);
  const std::uint64_t low = cluster.start(make_job(2));
  REQUIRE(cluster.workers_of(low) == Names{"w0", "w1"});
  for (const char* name : {"w2", "w3"}) cluster.at(name).cut_off = true;
  cluster.restart_coordinator(1s);
  cluster.run_for(2s);
  const std::uint64_t high = cluster.submit(with_priority(make_job(2), 1)).job();
  cluster.run_for(3s);
  for (const char* name : {"w2", "w3"}) cluster.at(name).cut_off = false;
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  CHECK(cluster.workers_of(high) == Names{"w2", "w3"});
  CHECK(cluster.status(low).state() == pb::RUNNING);
  CHECK(cluster.status(low).checkpoints().empty());
  CHECK(cluster.broken().empty());
}

TEST_CASE("no job shrinks for one of its own priority, or where shrinking is off",
          "[coordinator][queue]") {
  const bool shrinks = GENERATE(false, true);
  Jobs cluster(2);
  cluster.options.scheduling.set_shrinking(shrinks);
  cluster.restart_coordinator(1s);
  // Before that no job shrinks at all.
  cluster.run_for(cluster.options.heartbeat_limit + 1s);
  const std::uint64_t first = cluster.start(elastic_job(1, 2));
  const std::uint64_t second = cluster.submit(with_priority(make_job(1), shrinks ? 0 : 5)).job();
  cluster.run_for(5s);
  CHECK(cluster.workers_of(first).size() == 2);
  CHECK(cluster.status(second).message() == "waits for job 1 to end");
}

TEST_CASE("a job shrinks before another one is saved and stopped", "[coordinator][queue]") {
  Jobs cluster(4, true);
  const std::uint64_t rigid = cluster.start(make_job(2));
  const std::uint64_t elastic = cluster.start(elastic_job(1, 2));
  const std::uint64_t high = cluster.submit(with_priority(make_job(1), 1)).job();
  REQUIRE(cluster.run_until_state(high, pb::RUNNING));
  CHECK(cluster.status(rigid).state() == pb::RUNNING);
  CHECK(cluster.workers_of(elastic).size() == 1);
}

TEST_CASE("idle workers go to a job that waits before a running one grows",
          "[coordinator][queue]") {
  Jobs cluster(2);
  const std::uint64_t first = cluster.start(elastic_job(1, 4));
  const std::uint64_t second = cluster.submit(make_job(2)).job();
  cluster.add_worker("w2");
  cluster.run_for(3s);
  // It has reserved the first of them.
  CHECK(cluster.workers_of(first).size() == 2);
  cluster.add_worker("w3");
  REQUIRE(cluster.run_until_state(second, pb::RUNNING));
  cluster.add_worker("w4");
  CHECK(cluster.run_until([&] { return cluster.workers_of(first).size() == 3; }));
}

}  // namespace
}  // namespace taut
