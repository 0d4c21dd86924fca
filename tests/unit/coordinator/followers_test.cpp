// Readers that follow a job, as the coordinator sees them.
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/fake_cluster.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace taut {
namespace {

/// One server, and a job with two workers that trains.
struct FollowedCluster : FakeCluster {
  explicit FollowedCluster(double lease_s = 0) {
    add_server("s0");
    add_worker("w0");
    add_worker("w1");
    run_for(1s);
    pb::Job definition = make_job(2);
    definition.mutable_followers()->set_slack(3);
    definition.mutable_followers()->set_lease_s(lease_s);
    job = submit(definition).job();
    REQUIRE(run_until_state(job, pb::RUNNING));
    run_for(2s);
  }
  pb::FollowReply follow(std::uint64_t number, bool bounded = false, std::int64_t version = -1,
                         const std::string& address = "", std::uint64_t avoid = 0) {
    pb::ControlMessage request;
    pb::Follow& follow = *request.mutable_follow();
    follow.set_job(job);
    follow.set_follower(number);
    follow.set_name("f" + std::to_string(number));
    follow.set_bounded(bounded);
    follow.set_version(version);
    follow.set_address(address);
    follow.set_avoid(avoid);
    return ask(request).follow_reply();
  }
  void leave(std::uint64_t number, const std::string& name = "", bool bounded = true) {
    pb::ControlMessage request;
    pb::Follow& follow = *request.mutable_follow();
    follow.set_job(job);
    follow.set_follower(number);
    follow.set_name(name.empty() ? "f" + std::to_string(number) : name);
    follow.set_bounded(bounded);
    follow.set_leaves(true);
    (void)ask(request);
  }
  [[nodiscard]] int bound_at_server() {
    const pb::ServerJob* state = at("s0").server.state_of(job);
    return state == nullptr ? -1 : state->followers_size();
  }

  std::uint64_t job = 0;
};

}  // namespace

TEST_CASE("a follower is told where the job is, and shown in its status", "[coordinator]") {
  FollowedCluster cluster;
  const pb::FollowReply reply = cluster.follow(11, false, 5);
  CHECK(reply.error().empty());
  CHECK(reply.state() == pb::RUNNING);
  REQUIRE(reply.shards_size() == 1);
  CHECK_FALSE(reply.shards(0).address().empty());
  CHECK(reply.job_hash().size() == 64);
  CHECK(reply.source() == 0);
  const pb::JobStatus status = cluster.status(cluster.job);
  REQUIRE(status.followers_size() == 1);
  CHECK(status.followers(0).name() == "f11");
  CHECK(status.followers(0).version() == 5);
  CHECK(status.followers(0).behind() > 0);
  CHECK(cluster.bound_at_server() == 0);
  // One that says nothing more is forgotten, and costs nothing.
  cluster.run_for(20s);
  CHECK(cluster.status(cluster.job).followers_size() == 0);
  CHECK(cluster.status(cluster.job).cut_followers() == 0);
}

TEST_CASE("servers hear of a bounded follower before it is told that training waits for it",
          "[coordinator]") {
  FollowedCluster cluster;
  CHECK_FALSE(cluster.follow(11, true, 5).joined());
  cluster.run_for(1s);
  const pb::FollowReply reply = cluster.follow(11, true, 5);
  CHECK(reply.joined());
  CHECK(reply.slack() == 3);
  REQUIRE(cluster.bound_at_server() == 1);
  const pb::ServerJob state = *cluster.at("s0").server.state_of(cluster.job);
  CHECK(state.followers(0).follower() == 11);
  CHECK(state.followers(0).from() == 5);
  CHECK(state.follower_slack() == 3);
  cluster.leave(11);
  cluster.run_for(1s);
  CHECK(cluster.bound_at_server() == 0);
  CHECK(cluster.status(cluster.job).cut_followers() == 0);
}

TEST_CASE("a bounded follower that is silent for longer than its lease is cut", "[coordinator]") {
  FollowedCluster cluster(2);
  CHECK(cluster.follow(11, true, 5).lease_s() == 2);
  for (int i = 0; i < 5; ++i) {
    cluster.run_for(1s);
    CHECK(cluster.follow(11, true, 5).cut().empty());
  }
  cluster.run_for(3s);
  CHECK(cluster.bound_at_server() == 0);
  CHECK(cluster.status(cluster.job).cut_followers() == 1);
  CHECK_THAT(cluster.follow(11, true, 5).cut(), Contains("was silent for longer than its lease"));
  // It is another follower when it follows again.
  CHECK(cluster.follow(12, true, 9).cut().empty());
  cluster.run_for(1s);
  CHECK(cluster.bound_at_server() == 1);
}

TEST_CASE("another reader neither releases a bounded follower nor keeps it alive",
          "[coordinator]") {
  FollowedCluster cluster(2);
  (void)cluster.follow(11, true, 5);
  cluster.run_for(1s);
  REQUIRE(cluster.follow(11, true, 5).joined());
  cluster.leave(11, "f11", false);
  cluster.leave(11, "other", true);
  cluster.run_for(1s);
  CHECK(cluster.bound_at_server() == 1);
  // It is answered, as any reader.
  for (int i = 0; i < 3; ++i) {
    const pb::FollowReply reply = cluster.follow(11, false, 50, "elsewhere:1");
    CHECK(reply.error().empty());
    CHECK(reply.shards_size() == 1);
    const pb::JobStatus status = cluster.status(cluster.job);
    REQUIRE(status.followers_size() == 1);
    CHECK(status.followers(0).version() == 5);
    CHECK_FALSE(status.followers(0).passes_on());
    cluster.run_for(400ms);
  }
  cluster.run_for(1s);
  CHECK(cluster.status(cluster.job).cut_followers() == 1);
}

TEST_CASE("a bounded follower counts before it knows that servers know it", "[coordinator]") {
  FollowedCluster cluster(2);
  (void)cluster.follow(11, true, 5);
  // What it says until then may be without a bound.
  CHECK(cluster.follow(11, false, 6).error().empty());
  const pb::JobStatus status = cluster.status(cluster.job);
  REQUIRE(status.followers_size() == 1);
  CHECK(status.followers(0).version() == 6);
  cluster.run_for(1s);
  CHECK(cluster.follow(11, false, 6).joined());
  CHECK(cluster.bound_at_server() == 1);
}

TEST_CASE("a restarted coordinator knows its bounded followers, and cuts those that do not return",
          "[coordinator]") {
  FollowedCluster cluster(2);
  (void)cluster.follow(11, true, 5);
  (void)cluster.follow(12, true, 5);
  cluster.restart_coordinator(5s);
  cluster.run_for(1s);
  const pb::FollowReply reply = cluster.follow(11, true, 50);
  CHECK(reply.cut().empty());
  cluster.run_for(1500ms);
  CHECK(cluster.bound_at_server() == 1);
  CHECK_FALSE(cluster.follow(12, true, 5).cut().empty());
}

TEST_CASE("a job without followers in its text lets none hold it back", "[coordinator]") {
  FakeCluster cluster;
  cluster.add_server("s0");
  cluster.add_worker("w0");
  cluster.run_for(1s);
  const std::uint64_t job = cluster.submit(make_job(1)).job();
  pb::ControlMessage request;
  request.mutable_follow()->set_job(job);
  request.mutable_follow()->set_follower(11);
  request.mutable_follow()->set_bounded(true);
  CHECK_THAT(cluster.ask(request).follow_reply().error(),
             Contains("submit it with \"followers { slack: N }\""));
  request.mutable_follow()->set_bounded(false);
  CHECK(cluster.ask(request).follow_reply().error().empty());
  request.mutable_follow()->set_job(99);
  CHECK_THAT(cluster.ask(request).follow_reply().error(), Contains("job 99 does not exist"));
}

TEST_CASE("an ended job's tables are kept until its followers have the last version",
          "[coordinator]") {
  FollowedCluster cluster;
  (void)cluster.follow(11);
  (void)cluster.stop(cluster.job);
  REQUIRE(cluster.run_until_state(cluster.job, pb::STOPPED));
  cluster.run_for(2s);
  CHECK(cluster.follow(11).lingers());
  CHECK_FALSE(cluster.at("s0").server.has_finished(cluster.job));
  cluster.leave(11);
  cluster.run_for(1s);
  CHECK(cluster.at("s0").server.has_finished(cluster.job));
  CHECK_FALSE(cluster.follow(11).lingers());
}

TEST_CASE("an ended job's tables are dropped in the end, whatever its followers do",
          "[coordinator]") {
  FollowedCluster cluster;
  (void)cluster.follow(11);
  (void)cluster.stop(cluster.job);
  REQUIRE(cluster.run_until_state(cluster.job, pb::STOPPED));
  for (int i = 0; i < 12; ++i) {
    cluster.run_for(1s);
    (void)cluster.follow(11);
  }
  CHECK(cluster.at("s0").server.has_finished(cluster.job));
}

TEST_CASE("followers that pass models on are a chain, which closes where one is missing",
          "[coordinator]") {
  FollowedCluster cluster;
  for (std::uint64_t i = 1; i <= 4; ++i) {
    (void)cluster.follow(i, false, -1, "host:" + std::to_string(i));
  }
  const auto source = [&](std::uint64_t of, std::uint64_t avoid = 0) {
    return cluster.follow(of, false, -1, "host:" + std::to_string(of), avoid).source();
  };
  CHECK(source(1) == 0);
  CHECK(source(2) == 1);
  CHECK(source(4) == 3);
  CHECK(cluster.follow(9).source() == 0);  // it passes nothing on
  CHECK(source(4, 3) == 2);                // it says that 3 does not answer
  cluster.leave(2);
  CHECK(source(3) == 1);
  CHECK(source(4) == 1);
  CHECK(cluster.follow(4, false, -1, "host:4").source_address() == "host:1");
  for (int second = 0; second < 62; ++second) {
    cluster.run_for(1s);
    for (const std::uint64_t i : {1U, 3U, 4U}) (void)source(i);
  }
  CHECK(source(4) == 3);  // a minute later it may be tried again
}

}  // namespace taut
