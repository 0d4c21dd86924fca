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
  cluster.add_worker("m1", 99);
  cluster.run_for(2s);
  CHECK_FALSE(cluster.at("m0").session->accepted());
  CHECK_FALSE(cluster.at("m1").session->accepted());
  CHECK(std::ranges::count_if(cluster.notes, [](const std::string& note) {
          return note.find("trains a net") != std::string::npos ||
                 note.find("job 99 does not exist") != std::string::npos;
        }) >= 2);
}

TEST_CASE("what does not go with external members is refused", "[coordinator]") {
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
  SECTION("averaging") {
    job.mutable_consistency()->mutable_periodic_averaging();
    words = "periodic_averaging trains at the worker";
  }
  SECTION("clipping") {
    job.mutable_solver_param()->set_clip_gradients(1);
    words = "clip_gradients needs the norm";
  }
  CHECK_THAT(cluster.submit(job).error(), Contains(words));
}

}  // namespace taut
