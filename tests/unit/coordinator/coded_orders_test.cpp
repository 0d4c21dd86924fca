#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "server/coordinator/checkpoints/checkpoint_orders.hpp"
#include "server/coordinator/checkpoints/checkpoint_settings.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/checkpoint_cluster.hpp"

namespace taut {

using test::saved_job;
using Cluster = test::CheckpointCluster;

TEST_CASE("parts of a checkpoint go to the servers that are not lost, and are dropped there",
          "[checkpoint][parts]") {
  Cluster cluster;
  cluster.add_server("s2");
  REQUIRE(cluster.run_until([&] { return cluster.noted("s2"); }));
  pb::Job definition = saved_job(25, 1);
  definition.mutable_checkpoint()->mutable_coded();
  const std::uint64_t job = cluster.start(definition);
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.noted("in 4 + 2 parts on 3 servers: it survives the loss of 1, not of 2"));
  REQUIRE(!cluster.tasks.empty());
  bool removed = false;
  for (const CheckpointTask& task : cluster.tasks) {
    if (task.kind == CheckpointTask::Kind::kRemoveParts) {
      removed = true;
      // Of the first checkpoint, which is not kept, on each server.
      REQUIRE(task.removals.size() == 3);
      CHECK(task.removals[0].folder == "saved/lenet_iter_10");
      CHECK(task.removals[0].order == 1);
      CHECK(task.removals[0].address == "s0:7601");
    }
    if (task.kind != CheckpointTask::Kind::kFinish) continue;
    REQUIRE(task.holders.size() == 3);
    CHECK(!task.holders[0].address().empty());
    CHECK(task.manifest.coding().data() == 4);
    CHECK(task.manifest.coding().parity() == 2);
    CHECK(task.manifest.format() == 2);
  }
  CHECK(removed);
}

namespace {

struct CodedCluster : Cluster {
  CodedCluster() {
    add_server("s2");
    REQUIRE(run_until([&] { return noted("s2"); }));
  }
  static pb::Job coded_job(std::int32_t clocks, std::uint32_t keep = 0) {
    pb::Job job = saved_job(clocks, keep);
    job.mutable_checkpoint()->mutable_coded();
    return job;
  }
  /// "SERVER: FOLDER" of what was to be removed since `from`.
  [[nodiscard]] std::set<std::string> removals(std::size_t from) const {
    std::set<std::string> all;
    for (std::size_t i = from; i < tasks.size(); ++i) {
      for (const PartRemoval& one : tasks[i].removals) all.insert(one.server + ": " + one.folder);
    }
    return all;
  }
};

}  // namespace

TEST_CASE("a job with checkpoints in parts starts again from the newest one's manifest",
          "[checkpoint][parts]") {
  CodedCluster cluster;
  pb::Job definition = CodedCluster::coded_job(1000000);
  definition.set_restart(1);
  pb::ControlMessage request;
  pb::Submit& submit = *request.mutable_submit();
  *submit.mutable_definition() = definition;
  submit.set_token(77);
  SECTION("the job began again") {}
  SECTION("the job had resumed another checkpoint in parts") {
    submit.mutable_definition()->set_resume("elsewhere");
    submit.mutable_resume()->set_folder("elsewhere/lenet_iter_40");
    submit.mutable_resume()->set_clock(40);
    submit.mutable_resume()->set_slots(2);
    submit.mutable_resume()->set_manifest_sha256("of another job");
    submit.mutable_resume()->set_token(5);
  }
  const std::uint64_t first = cluster.ask(request).submit_reply().job();
  REQUIRE(cluster.run_until([&] { return !cluster.kept(first).empty(); }));
  cluster.add_server("s3");
  REQUIRE(cluster.run_until([&] { return cluster.noted("server \"s3\""); }));
  cluster.kill("s1");
  REQUIRE(cluster.run_until_state(first, pb::FAILED));
  const std::uint64_t second = cluster.status(first).restarted_as();
  REQUIRE(second == first + 1);
  REQUIRE(cluster.run_until([&] { return cluster.at("s3").server.state_of(second) != nullptr; }));
  const pb::KeptCheckpoint newest = *cluster.status(first).checkpoints().rbegin();
  const pb::ResumePoint resume = cluster.at("s3").server.state_of(second)->resume();
  CHECK(resume.folder() == newest.folder());
  CHECK(resume.clock() == newest.clock());
  CHECK(resume.manifest_sha256() == newest.manifest_sha256());
  CHECK(resume.manifest_sha256() == "of order " + std::to_string(newest.order()));
  CHECK(resume.token() == 77);
}

TEST_CASE("a job that had resumed parts and now writes whole files starts again from these",
          "[checkpoint][parts]") {
  Cluster cluster;
  pb::ControlMessage request;
  pb::Submit& submit = *request.mutable_submit();
  *submit.mutable_definition() = saved_job(1000000);
  submit.mutable_definition()->set_restart(1);
  submit.mutable_definition()->set_resume("elsewhere");
  submit.mutable_resume()->set_folder("elsewhere/lenet_iter_40");
  submit.mutable_resume()->set_clock(40);
  submit.mutable_resume()->set_slots(2);
  submit.mutable_resume()->set_manifest_sha256("of another job");
  const std::uint64_t first = cluster.ask(request).submit_reply().job();
  REQUIRE(cluster.run_until([&] { return !cluster.kept(first).empty(); }));
  cluster.kill("s1");
  REQUIRE(cluster.run_until_state(first, pb::FAILED));
  const std::uint64_t second = cluster.status(first).restarted_as();
  REQUIRE(cluster.run_until_state(second, pb::RUNNING));
  CHECK(cluster.status(second).resume().folder() ==
        "saved/lenet_iter_" + std::to_string(cluster.status(second).resume().clock()));
  CHECK(cluster.status(second).resume().manifest_sha256().empty());
}

TEST_CASE("a server that was away removes the parts of what was given up meanwhile",
          "[checkpoint][parts]") {
  CodedCluster cluster;
  const std::uint64_t job = cluster.start(CodedCluster::coded_job(1000000));
  REQUIRE(cluster.run_until([&] { return !cluster.kept(job).empty(); }));
  for (const char* server : {"s0", "s1", "s2"}) cluster.at(server).server.stalls = true;
  const std::size_t kept = cluster.kept(job).size();
  const auto order = [&] { return cluster.at("s2").server.state_of(job)->checkpoint(); };
  REQUIRE(cluster.run_until([&] { return order().number() > kept; }));
  const std::string given_up = order().folder();
  const std::size_t from = cluster.tasks.size();
  cluster.kill("s2");
  REQUIRE(cluster.run_until_state(job, pb::FAILED));
  cluster.run_for(std::chrono::seconds(5));
  CHECK(cluster.removals(from) == std::set<std::string>{"s0: " + given_up, "s1: " + given_up});
  const std::size_t later = cluster.tasks.size();
  SECTION("it returns") {}
  SECTION("the coordinator starts again meanwhile") {
    cluster.restart_coordinator(std::chrono::seconds(1));
    cluster.run_for(std::chrono::seconds(5));
    CHECK(cluster.removals(later).empty());
  }
  cluster.add_server("s2");
  REQUIRE(cluster.run_until([&] { return !cluster.removals(later).empty(); }));
  CHECK(cluster.removals(later) == std::set<std::string>{"s2: " + given_up});
  // Once is enough.
  const std::size_t last = cluster.tasks.size();
  cluster.run_for(std::chrono::minutes(3));
  CHECK(cluster.removals(last).empty());
}

TEST_CASE("a server that does not answer is to remove its parts again later",
          "[checkpoint][parts]") {
  CodedCluster cluster;
  cluster.silent_disks = {"s1"};
  const std::uint64_t job = cluster.start(CodedCluster::coded_job(25, 1));
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  std::size_t from = cluster.tasks.size();
  CHECK(cluster.removals(0).contains("s1: saved/lenet_iter_10"));
  cluster.run_for(std::chrono::seconds(70));
  CHECK(cluster.removals(from).contains("s1: saved/lenet_iter_10"));
  CHECK_FALSE(cluster.removals(from).contains("s0: saved/lenet_iter_10"));
  cluster.silent_disks.clear();
  cluster.run_for(std::chrono::seconds(70));
  from = cluster.tasks.size();
  cluster.run_for(std::chrono::minutes(3));
  CHECK(cluster.removals(from).empty());
}

TEST_CASE("parts that some servers have moved are removed where the checkpoint is given up",
          "[checkpoint][parts]") {
  CodedCluster cluster;
  cluster.task_fails = "a disk is full";
  const std::uint64_t job = cluster.start(CodedCluster::coded_job(1000000));
  REQUIRE(cluster.run_until([&] { return !cluster.status(job).checkpoint_failure().empty(); }));
  cluster.task_fails.clear();
  REQUIRE(cluster.run_until([&] { return !cluster.removals(0).empty(); }));
  for (const char* server : {"s0", "s1", "s2"}) {
    CHECK(cluster.removals(0).contains(server + std::string(": saved/lenet_iter_10")));
    CHECK(cluster.removals(0).contains(server + std::string(": saved/lenet_iter_10.part-1-1")));
  }
}

TEST_CASE("a checkpoint on request that there cannot be is refused with the reason",
          "[checkpoint][parts]") {
  Cluster cluster;
  pb::Job definition = make_job(2);
  definition.mutable_checkpoint()->set_folder("saved");
  definition.mutable_checkpoint()->mutable_coded();
  const std::uint64_t job = cluster.start(definition);
  const pb::CommandReply refused = cluster.make_checkpoint(job);
  CHECK_THAT(refused.error(),
             Catch::Matchers::Contains("4 + 2 parts on 2 servers would not survive the loss"));
  CHECK(refused.message().empty());
  const pb::CommandReply stopped = cluster.stop(job, false);
  CHECK_THAT(stopped.message(),
             Catch::Matchers::Contains(
                 "job 1 is stopped without being saved: no checkpoint is written: 4"));
  REQUIRE(cluster.run_until_state(job, pb::STOPPED));
}

TEST_CASE("parts on too few servers are not ordered, and training continues",
          "[checkpoint][parts]") {
  Cluster cluster;
  pb::Job definition = saved_job(25);
  definition.mutable_checkpoint()->mutable_coded();
  const std::uint64_t job = cluster.start(definition);
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.tasks.empty());
  CHECK_THAT(cluster.status(job).checkpoint_failure(),
             Catch::Matchers::Contains(
                 "4 + 2 parts on 2 servers would not survive the loss of one; it takes 3 servers, "
                 "or fewer data parts"));
}

namespace {

/// A running job with a checkpoint in 1 + 1 parts at every tenth clock, and its servers.
struct CodedRecord {
  explicit CodedRecord(int servers) : job(stored(), TimePoint()) {
    for (int i = 0; i < servers; ++i) join("s" + std::to_string(i));
  }
  static pb::StoredJob stored() {
    pb::StoredJob stored;
    stored.set_job(1);
    stored.set_state(pb::RUNNING);
    *stored.mutable_definition() = saved_job(1000);
    pb::CodedCheckpoints& coded =
        *stored.mutable_definition()->mutable_checkpoint()->mutable_coded();
    coded.set_data(1);
    coded.set_parity(1);
    stored.add_modes();
    return stored;
  }
  void join(const std::string& name) {
    pb::StoredServer& server = *job.change().add_servers();
    server.set_name(name);
    server.add_shard_addresses(name + ":7601");
    job.servers.emplace_back();
  }
  void lose(int server) {
    pb::StoredServer& lost = *job.change().mutable_servers(server);
    lost.set_lost(true);
    lost.set_last_order(job.stored().checkpoints_ordered());
    job.servers.at(static_cast<std::size_t>(server)).lost = true;
  }
  void advance() { advance_checkpoint(job, std::chrono::minutes(10), TimePoint(), tasks, notes); }
  [[nodiscard]] std::vector<std::string> holders() const {
    std::vector<std::string> names;
    for (const pb::PartHolder& one : job.stored().checkpoint().holders()) {
      names.push_back(one.name());
    }
    return names;
  }
  JobRecord job;
  CheckpointTasks tasks;
  Notes notes;
};

}  // namespace

TEST_CASE("a checkpoint in parts is ordered again once there are enough servers",
          "[checkpoint][parts]") {
  CodedRecord record(1);
  for (int clock = 0; clock < 1000; clock += 10) {
    record.job.servers[0].reply.set_max_done(clock);
    record.advance();
  }
  CHECK_FALSE(record.job.stored().has_checkpoint());
  CHECK(record.job.stored().checkpointed_to() == 0);
  CHECK_THAT(record.job.stored().checkpoint_failure(),
             Catch::Matchers::Contains("no checkpoint is written: 1 + 1 parts on 1 server would"));
  CHECK(record.notes.size() == 1);
  record.job.servers[0].reply.set_max_done(505);
  record.join("s1");
  record.advance();
  REQUIRE(record.job.stored().has_checkpoint());
  CHECK(record.job.stored().checkpoint().clock() == 510);
  CHECK(record.holders() == std::vector<std::string>{"s0", "s1"});
  REQUIRE(order_last_checkpoint(record.job, record.tasks, record.notes).has_value());
  CHECK(record.job.stored().checkpoint_failure().empty());
  record.advance();
  CHECK(record.job.stored().checkpoint().clock() == 505);
}

TEST_CASE("a job that is stopped waits for no checkpoint that too few servers are left for",
          "[checkpoint][parts]") {
  CodedRecord record(2);
  REQUIRE(order_last_checkpoint(record.job, record.tasks, record.notes).has_value());
  CHECK(record.job.stored().checkpoint_wanted());
  record.lose(1);
  record.advance();
  CHECK_FALSE(record.job.stored().checkpoint_wanted());
  CHECK_THAT(record.job.stored().checkpoint_failure(),
             Catch::Matchers::Contains("no checkpoint is written: 1 + 1 parts on 1 server"));
}

TEST_CASE("a checkpoint in parts is ordered again when a server that was to keep some is lost",
          "[checkpoint][parts]") {
  CodedRecord record(4);
  record.advance();
  REQUIRE(record.holders().size() == 4);
  record.lose(3);
  SECTION("it was not complete") {
    record.advance();
    CHECK(record.job.stored().checkpoint().number() == 2);
    CHECK(record.holders() == std::vector<std::string>{"s0", "s1", "s2"});
    REQUIRE(record.tasks.size() == 1);
    CHECK(record.tasks.front().kind == CheckpointTask::Kind::kDrop);
    // Once is enough.
    record.advance();
    CHECK(record.job.stored().checkpoint().number() == 2);
  }
  SECTION("it is being completed") {
    record.job.finishes_checkpoint = true;
    record.advance();
    CHECK(record.job.stored().checkpoint().number() == 1);
  }
}

TEST_CASE("as many servers may be lost as have no more parts than there is parity",
          "[checkpoint][parts]") {
  pb::CodedCheckpoints coded;
  const auto survived = [&](std::uint32_t servers) { return losses_survived(coded, servers); };
  CHECK(survived(0) == 0);
  CHECK(survived(1) == 0);
  CHECK(survived(2) == 0);
  CHECK(survived(3) == 1);
  CHECK(survived(5) == 1);
  CHECK(survived(6) == 2);
  CHECK(survived(100) == 2);
  coded.set_data(1);
  coded.set_parity(1);
  CHECK(survived(2) == 1);
}

}  // namespace taut
