#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace taut {
namespace {

pb::Job external_job(std::uint32_t workers, std::uint32_t min_workers = 0) {
  pb::Job job;
  job.set_external_members(true);
  job.mutable_solver_param()->set_base_lr(0.01F);
  job.set_workers(workers);
  job.set_min_workers(min_workers);
  return job;
}

/// One server, and a job that waits for members.
struct ExternalCluster : FakeCluster {
  explicit ExternalCluster(const pb::Job& definition) {
    add_server("s0");
    run_for(1s);
    const pb::SubmitReply reply = submit(definition);
    REQUIRE(reply.error().empty());
    job = reply.job();
  }
  void leave(const std::string& name, FakeWorker::Leaves how) { at(name).worker.leaves = how; }
  [[nodiscard]] std::int64_t clock(const std::string& name) { return at(name).worker.clock(); }

  std::uint64_t job = 0;
};

}  // namespace

TEST_CASE("a job of external members starts with its own alone and ends when they have finished",
          "[coordinator]") {
  ExternalCluster cluster(external_job(2));
  cluster.add_worker("w0");  // trains nets
  cluster.add_worker("m0", cluster.job);
  cluster.run_for(2s);
  CHECK(cluster.status(cluster.job).state() == pb::SUBMITTED);
  CHECK(cluster.status(cluster.job).message() == "waits for 1 more member: 2 required, 1 joined");
  cluster.add_worker("m1", cluster.job);
  REQUIRE(cluster.run_until_state(cluster.job, pb::RUNNING));
  cluster.run_for(3s);
  CHECK_FALSE(cluster.at("w0").worker.job());
  CHECK(cluster.clock("m0") > 100);

  cluster.leave("m0", FakeWorker::Leaves::kFinished);
  cluster.run_for(2s);
  // The other one does not wait for it, and no other takes its place.
  cluster.add_worker("m2", cluster.job);
  const std::int64_t before = cluster.clock("m1");
  cluster.run_for(2s);
  CHECK(cluster.clock("m1") > before + 50);
  CHECK_FALSE(cluster.at("m2").worker.job());
  CHECK(cluster.status(cluster.job).state() == pb::RUNNING);
  cluster.leave("m1", FakeWorker::Leaves::kFinished);
  REQUIRE(cluster.run_until_state(cluster.job, pb::DONE));
  CHECK(cluster.status(cluster.job).message().empty());
  CHECK(cluster.broken().empty());
  // Who still waits for a place learns that there is none.
  cluster.run_for(2s);
  CHECK_FALSE(cluster.at("m2").session->accepted());
}

TEST_CASE("a job whose external members have left waits for others, as long as it takes",
          "[coordinator]") {
  ExternalCluster cluster(external_job(1));
  cluster.add_worker("m0", cluster.job);
  REQUIRE(cluster.run_until_state(cluster.job, pb::RUNNING));
  cluster.run_for(1s);
  cluster.leave("m0", FakeWorker::Leaves::kForNow);
  cluster.run_for(200s);
  CHECK(cluster.status(cluster.job).state() == pb::RUNNING);
  CHECK_THAT(cluster.status(cluster.job).message(), Contains("waits for a member to join"));
  const std::int64_t left = cluster.clock("m0");
  cluster.add_worker("m1", cluster.job);
  cluster.run_for(2s);
  CHECK(cluster.clock("m1") > left);
  cluster.kill("m1");
  cluster.run_for(100s);
  CHECK(cluster.status(cluster.job).state() == pb::RUNNING);
  cluster.add_worker("m1", cluster.job);
  cluster.run_for(2s);
  cluster.leave("m1", FakeWorker::Leaves::kFinished);
  REQUIRE(cluster.run_until_state(cluster.job, pb::DONE));
  CHECK(cluster.broken().empty());
}

TEST_CASE("a member that joins before any initial value is sent brings them too", "[coordinator]") {
  ExternalCluster cluster(external_job(3, 1));
  cluster.add_worker("m0", cluster.job).worker.stuck = true;
  REQUIRE(cluster.run_until_state(cluster.job, pb::RUNNING));
  cluster.add_worker("m1", cluster.job);
  cluster.run_for(2s);
  REQUIRE(cluster.at("m1").worker.job());
  CHECK(cluster.at("m1").worker.job()->start_clock() == 0);
  cluster.kill("m0");
  cluster.run_for(60s);
  CHECK(cluster.clock("m1") > 50);
  cluster.add_worker("m2", cluster.job);
  cluster.run_for(2s);
  REQUIRE(cluster.at("m2").worker.job());
  CHECK(cluster.at("m2").worker.job()->start_clock() > 50);
  CHECK(cluster.broken().empty());
}

TEST_CASE("members that finish end a job with a checkpoint of their last clock", "[coordinator]") {
  pb::Job definition = external_job(2);
  definition.mutable_checkpoint()->set_folder("saved");
  definition.mutable_checkpoint()->set_every(100000);
  ExternalCluster cluster(definition);
  cluster.add_worker("m0", cluster.job);
  cluster.add_worker("m1", cluster.job);
  REQUIRE(cluster.run_until_state(cluster.job, pb::RUNNING));
  cluster.run_for(2s);
  for (const char* name : {"m0", "m1"}) cluster.leave(name, FakeWorker::Leaves::kFinished);
  REQUIRE(cluster.run_until_state(cluster.job, pb::DONE));
  const pb::JobStatus status = cluster.status(cluster.job);
  REQUIRE(status.checkpoints_size() == 1);
  CHECK(status.checkpoints(0).clock() == std::max(cluster.clock("m0"), cluster.clock("m1")));
}

TEST_CASE("a job of members is finished by request, with a checkpoint", "[coordinator]") {
  ExternalCluster cluster(external_job(2));
  CHECK_THAT(cluster.finish(cluster.job).error(), Contains("has not started"));
  cluster.add_worker("m0", cluster.job);
  cluster.add_worker("m1", cluster.job);
  REQUIRE(cluster.run_until_state(cluster.job, pb::RUNNING));
  cluster.run_for(2s);
  std::int64_t reached = 0;
  SECTION("while its members train") {
    reached = std::max(cluster.clock("m0"), cluster.clock("m1"));
  }
  SECTION("while it waits for a member") {
    // They leave at the end of a clock from here on.
    reached = std::max(cluster.clock("m0"), cluster.clock("m1"));
    for (const char* name : {"m0", "m1"}) cluster.leave(name, FakeWorker::Leaves::kForNow);
    cluster.run_for(5s);
  }
  const pb::CommandReply reply = cluster.finish(cluster.job);
  CHECK(reply.error().empty());
  CHECK(reply.message() == "job 1 is saved, then it is done");
  REQUIRE(cluster.run_until_state(cluster.job, pb::DONE));
  const pb::JobStatus status = cluster.status(cluster.job);
  CHECK_THAT(status.message(), Contains("finished by request; saved at clock"));
  REQUIRE(status.checkpoints_size() == 1);
  // Clocks are known from the last heartbeats, which may be some clocks old.
  CHECK(status.checkpoints(0).clock() >= reached - 20);
  CHECK_THAT(cluster.finish(cluster.job).error(), Contains("has ended: it is done"));
  CHECK(cluster.broken().empty());
}

TEST_CASE("a stop takes the place of a finish that is not over", "[coordinator]") {
  ExternalCluster cluster(external_job(1));
  cluster.add_worker("m0", cluster.job);
  REQUIRE(cluster.run_until_state(cluster.job, pb::RUNNING));
  cluster.run_for(1s);
  CHECK(cluster.finish(cluster.job).error().empty());
  CHECK(cluster.stop(cluster.job, true).error().empty());
  CHECK_THAT(cluster.finish(cluster.job).error(), Contains("is being ended already"));
  REQUIRE(cluster.run_until_state(cluster.job, pb::STOPPED));
}

TEST_CASE("a job with a net is not finished by request", "[coordinator]") {
  FakeCluster cluster;
  cluster.add_server("s0");
  cluster.add_worker("w0");
  cluster.run_for(1s);
  const std::uint64_t job = cluster.submit(make_job(1)).job();
  REQUIRE(cluster.run_until_state(job, pb::RUNNING));
  CHECK_THAT(cluster.finish(job).error(), Contains("trains a net") && Contains("tautline stop 1"));
  CHECK(cluster.status(job).state() == pb::RUNNING);
}

TEST_CASE("members of a job whose text names tables begin at clock 1", "[coordinator]") {
  pb::Job definition = external_job(2);
  pb::JobTable& table = *definition.add_tables();
  table.set_name("w");
  table.add_shape(3);
  ExternalCluster cluster(definition);
  cluster.add_worker("m0", cluster.job);
  cluster.add_worker("m1", cluster.job);
  REQUIRE(cluster.run_until_state(cluster.job, pb::RUNNING));
  cluster.run_for(2s);
  CHECK(cluster.at("m0").worker.job()->start_clock() == 1);
  CHECK(cluster.clock("m1") > 50);
  CHECK(cluster.broken().empty());
}

TEST_CASE("members of a job keep their places when the coordinator restarts", "[coordinator]") {
  ExternalCluster cluster(external_job(2));
  for (const char* name : {"m0", "m1"}) cluster.add_worker(name, cluster.job);
  REQUIRE(cluster.run_until_state(cluster.job, pb::RUNNING));
  cluster.run_for(1s);
  cluster.restart_coordinator(2s);
  const std::int64_t before = cluster.clock("m0");
  cluster.run_for(3s);
  CHECK(cluster.clock("m0") > before + 50);
  CHECK(cluster.status(cluster.job).state() == pb::RUNNING);
  for (const char* name : {"m0", "m1"}) cluster.leave(name, FakeWorker::Leaves::kFinished);
  REQUIRE(cluster.run_until_state(cluster.job, pb::DONE));
  CHECK(cluster.broken().empty());
}

TEST_CASE("a member whose job is another kind, or is not there, is refused", "[coordinator]") {
  ExternalCluster cluster(external_job(1));
  cluster.add_worker("w0");
  cluster.run_for(1s);
  const std::uint64_t net = cluster.submit(make_job(1)).job();
  cluster.add_worker("m0", net);
  cluster.run_for(2s);  // of refusals one a second is noted
  cluster.add_worker("m1", 99);
  cluster.run_for(2s);
  CHECK_FALSE(cluster.at("m0").session->accepted());
  CHECK_FALSE(cluster.at("m1").session->accepted());
  CHECK(std::ranges::count_if(cluster.notes, [](const std::string& note) {
          return note.find("trains a net") != std::string::npos ||
                 note.find("job 99 does not exist") != std::string::npos;
        }) >= 2);
}

TEST_CASE("what cannot be combined with external members is refused", "[coordinator]") {
  FakeCluster cluster;
  cluster.add_server("s0");
  cluster.run_for(1s);
  pb::Job job = external_job(2);
  std::string words;
  SECTION("a net") {
    job.mutable_net_param()->set_name("net");
    words = "the job has net as well";
  }
  SECTION("data") {
    job.add_data()->set_folder("data");
    words = "the job has data as well";
  }
  SECTION("no number of members") {
    job.clear_workers();
    words = "must say how many there are";
  }
  SECTION("elastic averaging") {
    job.mutable_consistency()->mutable_elastic_averaging();
    words = "elastic_averaging trains at the worker";
  }
  SECTION("fragments that do not divide the interval") {
    job.mutable_consistency()->set_mode(pb::Consistency::BSP);
    job.mutable_consistency()->clear_slack();
    job.mutable_consistency()->mutable_periodic_averaging()->set_fragments(3);
    words = "fragments is 3, by which the interval of 10 cannot be divided";
  }
  SECTION("tables that cannot be made") {
    job.add_tables()->set_name("w");
    job.mutable_tables(0)->add_shape(-1);
    words = "table \"w\" has shape -1";
  }
  SECTION("a rate below 0") {
    job.mutable_solver_param()->set_base_lr(-0.5F);
    words = "base_lr must be at least 0, is -0.5";
  }
  SECTION("a moving average that never changes") {
    job.mutable_solver_param()->set_type("Adam");
    job.mutable_solver_param()->set_momentum2(1);
    words = "momentum2 must be in [0, 1), is 1";
  }
  SECTION("clipping") {
    job.mutable_solver_param()->set_clip_gradients(1);
    words = "clip_gradients needs the norm";
  }
  CHECK_THAT(cluster.submit(job).error(), Contains(words));
}

}  // namespace taut
