#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proto/config/experiment_check.hpp"
#include "server/coordinator/checkpoints/checkpoint_orders.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/checkpoint_cluster.hpp"

namespace taut {

using test::Clocks;
using test::saved_job;
using Cluster = test::CheckpointCluster;

TEST_CASE("a job is saved at every tenth clock and at its end, and done only then",
          "[checkpoint]") {
  Cluster cluster;
  const std::uint64_t job = cluster.start(saved_job(25));
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  const Clocks kept = cluster.kept(job);
  REQUIRE(kept.size() >= 2);
  CHECK(kept.front() == 10);
  CHECK(kept.back() == 25);
  for (std::size_t i = 0; i + 1 < kept.size(); ++i) CHECK(kept[i] % 10 == 0);
  const CheckpointTask& last = cluster.tasks.back();
  CHECK(last.kind == CheckpointTask::Kind::kFinish);
  CHECK(last.folder == "saved/lenet_iter_25");
  CHECK(last.aside.starts_with("saved/lenet_iter_25.part-"));
  CHECK(last.manifest.clock() == 25);
  CHECK(last.manifest.files_size() == 2);
  CHECK(last.manifest.tables_size() == 1);
  CHECK(last.manifest.members_size() == 2);
  CHECK(last.manifest.definition().name() == "lenet");
  CHECK(cluster.status(job).checkpoint_failure().empty());
}

TEST_CASE("a job without an interval is saved only on request", "[checkpoint]") {
  Cluster cluster;
  const std::uint64_t job = cluster.start(make_job(2));
  cluster.run_for(std::chrono::seconds(2));
  CHECK(cluster.tasks.empty());
  const pb::CommandReply reply = cluster.make_checkpoint(0);
  CHECK(reply.error().empty());
  CHECK(reply.message().starts_with("job 1: checkpoint at clock "));
  CHECK(reply.job() == job);
  REQUIRE(cluster.run_until([&] { return !cluster.kept(job).empty(); }));
  CHECK(cluster.status(job).state() == pb::RUNNING);
  cluster.run_for(std::chrono::seconds(2));
  CHECK(cluster.kept(job).size() == 1);
  CHECK(!cluster.make_checkpoint(7).error().empty());
  cluster.stop(job);
  REQUIRE(cluster.run_until_state(job, pb::STOPPED));
  CHECK(cluster.make_checkpoint(0).error() == "no job is running");
}

TEST_CASE("a job that is stopped is saved first", "[checkpoint]") {
  Cluster cluster;
  const std::uint64_t job = cluster.start(make_job(2));
  cluster.run_for(std::chrono::seconds(1));
  CHECK(cluster.stop(job, false).message() ==
        "job 1 is saved, then stopped (--discard stops it at once)");
  REQUIRE(cluster.run_until_state(job, pb::STOPPED));
  REQUIRE(cluster.kept(job).size() == 1);
  const pb::JobStatus status = cluster.status(job);
  CHECK(status.message() == "stopped by request; saved at clock " +
                                std::to_string(cluster.kept(job)[0]) + ": " +
                                status.checkpoints(0).folder());
}

TEST_CASE("what a job that is stopped saves is behind no clock that a worker has trained",
          "[checkpoint]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const bool saves : {false, true}) {
      Cluster cluster(seed, FakeNetwork{.drop = 0.1});
      const std::uint64_t job = cluster.start(saves ? saved_job(100000) : make_job(2));
      cluster.run_for(std::chrono::milliseconds(500 + 37 * static_cast<std::int64_t>(seed)));
      CHECK(cluster.stop(job, false).error().empty());
      REQUIRE(cluster.run_until_state(job, pb::STOPPED));
      REQUIRE(!cluster.kept(job).empty());
      const pb::JobStatus status = cluster.status(job);
      for (const pb::WorkerStatus& worker : status.workers()) {
        CHECK(worker.progress().clock() == cluster.kept(job).back());
      }
    }
  }
}

TEST_CASE("a user's order while a job is being stopped orders nothing before its workers answer",
          "[checkpoint]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Cluster cluster(seed, FakeNetwork{.drop = 0.1});
    const std::uint64_t job = cluster.start(make_job(2));
    cluster.run_for(std::chrono::milliseconds(500 + 37 * static_cast<std::int64_t>(seed)));
    CHECK(cluster.stop(job, false).error().empty());
    if (cluster.status(job).state() == pb::RUNNING) {
      CHECK(cluster.make_checkpoint(job).message() ==
            "job 1: it is being stopped, and its last checkpoint is written");
    }
    REQUIRE(cluster.run_until_state(job, pb::STOPPED));
    REQUIRE(cluster.kept(job).size() == 1);
    const pb::JobStatus status = cluster.status(job);
    for (const pb::WorkerStatus& worker : status.workers()) {
      CHECK(worker.progress().clock() == cluster.kept(job).back());
    }
  }
}

TEST_CASE("a checkpoint at clock 1 that is being completed when a job is stopped is not its last",
          "[checkpoint]") {
  pb::StoredJob stored;
  stored.set_job(1);
  stored.set_state(pb::RUNNING);
  *stored.mutable_definition() = saved_job(100);
  stored.add_modes();
  stored.mutable_checkpoint()->set_number(1);
  stored.mutable_checkpoint()->set_clock(1);
  JobRecord job(std::move(stored), TimePoint());
  job.finishes_checkpoint = true;
  CheckpointTasks tasks;
  Notes notes;
  REQUIRE(order_last_checkpoint(job, tasks, notes).has_value());
  CheckpointTask task;
  task.number = 1;
  task.folder = "saved/lenet_iter_1";
  SECTION("it is complete") {
    note_finished(job, task, "", tasks, notes);
    CHECK(job.stored().checkpoints_size() == 1);
  }
  SECTION("it fails") {
    note_finished(job, task, "a disk is full", tasks, notes);
    CHECK(job.stored().checkpoints_size() == 0);
  }
  CHECK(job.stored().checkpoint_wanted());
  advance_checkpoint(job, std::chrono::minutes(10), TimePoint(), tasks, notes);
  REQUIRE(job.stored().has_checkpoint());
  CHECK(job.stored().saved_before() == job.stored().checkpoint().clock());
  task.number = job.stored().checkpoint().number();
  note_finished(job, task, "", tasks, notes);
  CHECK(job.stored().checkpoint_failure().empty());
  CHECK(!job.stored().checkpoint_wanted());
}

TEST_CASE("a job that is stopped while a worker is lost is saved all the same", "[checkpoint]") {
  Cluster cluster;
  const std::uint64_t job = cluster.start(make_job(2));
  cluster.run_for(std::chrono::seconds(1));
  CHECK(cluster.stop(job, false).error().empty());
  cluster.kill("w1");
  REQUIRE(cluster.run_until_state(job, pb::STOPPED));
  CHECK(cluster.kept(job).size() == 1);
}

TEST_CASE("a job that cannot be saved is stopped all the same, and says so", "[checkpoint]") {
  Cluster cluster;
  const std::uint64_t job = cluster.start(make_job(2));
  cluster.at("s1").server.disk = "the disk is full";
  CHECK(cluster.stop(job, false).error().empty());
  REQUIRE(cluster.run_until_state(job, pb::STOPPED));
  CHECK(cluster.kept(job).empty());
  CHECK(cluster.status(job).message().find("the disk is full") != std::string::npos);
}

TEST_CASE("a job whose checkpoint takes too long is stopped without it, or at once if asked",
          "[checkpoint]") {
  for (const bool discards : {false, true}) {
    Cluster cluster;
    const std::uint64_t job = cluster.start(make_job(2));
    cluster.at("s1").server.stalls = true;
    CHECK(cluster.stop(job, false).error().empty());
    cluster.run_for(std::chrono::seconds(5));
    CHECK(cluster.status(job).state() == pb::RUNNING);
    if (discards) {
      CHECK(cluster.stop(job, true).error().empty());
      cluster.run_for(std::chrono::seconds(2));
    } else {
      cluster.run_for(cluster.options.save_limit);
    }
    CHECK(cluster.status(job).state() == pb::STOPPED);
    CHECK(cluster.kept(job).empty());
  }
}

TEST_CASE("a job that fails starts again from its newest checkpoint, so often as it says",
          "[checkpoint]") {
  Cluster cluster;
  pb::Job definition = saved_job(1000000);
  definition.set_restart(1);
  const std::uint64_t first = cluster.start(definition);
  REQUIRE(cluster.run_until([&] { return !cluster.kept(first).empty(); }));
  cluster.kill("s1");
  REQUIRE(cluster.run_until_state(first, pb::FAILED));
  const std::uint64_t second = cluster.status(first).restarted_as();
  REQUIRE(second == first + 1);
  const std::int64_t newest = cluster.kept(first).back();
  CHECK(cluster.status(first).advice() == "job 2 continues it");
  REQUIRE(cluster.run_until_state(second, pb::RUNNING));
  CHECK(cluster.status(second).resume().clock() == newest);
  REQUIRE(cluster.run_until([&] { return !cluster.kept(second).empty(); }));
  cluster.kill("s0");
  REQUIRE(cluster.run_until_state(second, pb::FAILED));
  CHECK(cluster.status(second).restarted_as() == 0);
  CHECK(cluster.status(second).advice().starts_with("tautline resume 2 continues from clock "));
}

TEST_CASE("servers are notified that no further checkpoint is ordered, and keep no memory for one",
          "[checkpoint]") {
  Cluster cluster;
  const std::uint64_t job = cluster.start(make_job(2));
  REQUIRE(cluster.make_checkpoint(job).error().empty());
  const auto is_ordered = [&](const char* server) {
    const pb::ServerJob* const state = cluster.at(server).server.state_of(job);
    return state != nullptr && state->has_checkpoint();
  };
  REQUIRE(cluster.run_until([&] { return is_ordered("s0") && is_ordered("s1"); }));
  REQUIRE(cluster.run_until([&] { return !cluster.kept(job).empty(); }));
  CHECK(cluster.run_until([&] { return !is_ordered("s0") && !is_ordered("s1"); }));
  CHECK(cluster.status(job).state() == pb::RUNNING);
}

TEST_CASE("a checkpoint's place follows from the solver's prefix, as with Caffe", "[checkpoint]") {
  const auto folder_of = [](const std::string& prefix) {
    Cluster cluster;
    pb::Job job = make_job(2, 5);
    job.set_name("a/b");
    job.mutable_solver_param()->set_snapshot(100);
    if (!prefix.empty()) job.mutable_solver_param()->set_snapshot_prefix(prefix);
    const std::uint64_t id = cluster.start(job);
    REQUIRE(cluster.run_until_state(id, pb::DONE));
    return cluster.status(id).checkpoints(0).folder();
  };
  CHECK(folder_of("examples/mnist/lenet") == "examples/mnist/lenet_iter_5");
  CHECK(folder_of("lenet") == "./lenet_iter_5");
  CHECK(folder_of("/data/") == "/data/a_b_iter_5");
  CHECK(folder_of("") == "checkpoints/a_b_iter_5");
}

TEST_CASE("snapshot_after_train: false leaves the end unsaved", "[checkpoint]") {
  Cluster cluster;
  pb::Job job = saved_job(25);
  job.mutable_solver_param()->set_snapshot_after_train(false);
  const std::uint64_t id = cluster.start(job);
  REQUIRE(cluster.run_until_state(id, pb::DONE));
  CHECK(cluster.kept(id).back() % 10 == 0);
}

TEST_CASE("a disk that fails costs a checkpoint and not the training", "[checkpoint]") {
  Cluster cluster;
  cluster.at("s1").server.disk = "disk full";
  const std::uint64_t job = cluster.start(saved_job(200));
  REQUIRE(cluster.run_until([&] { return !cluster.tasks.empty(); }));
  CHECK(cluster.tasks.front().kind == CheckpointTask::Kind::kDrop);
  CHECK(cluster.tasks.front().aside.starts_with("saved/lenet_iter_10.part-"));
  CHECK(
      cluster.noted("the checkpoint at clock 10 is not written: server \"s1\": disk full; "
                    "training continues"));
  CHECK(cluster.status(job).state() == pb::RUNNING);
  CHECK(cluster.status(job).checkpoint_failure().find("disk full") != std::string::npos);
  cluster.at("s1").server.disk.clear();
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.kept(job).back() == 200);
  CHECK(cluster.status(job).checkpoint_failure().empty());
}

TEST_CASE("a job that has diverged names its last checkpoint, and keeps it", "[checkpoint]") {
  Cluster cluster;
  const std::uint64_t job = cluster.start(saved_job(1000));
  REQUIRE(cluster.run_until([&] { return !cluster.status(job).checkpoints().empty(); }));
  cluster.at("w1").worker.fails = "the loss is nan";
  cluster.at("w1").worker.diverges = true;
  REQUIRE(cluster.run_until_state(job, pb::FAILED));
  const pb::JobStatus status = cluster.status(job);
  REQUIRE(!status.checkpoints().empty());
  const pb::KeptCheckpoint& last = *status.checkpoints().rbegin();
  CHECK(status.message() == "worker \"w1\": the loss is nan");
  CHECK(status.diverged());
  CHECK(status.advice() == "with a lower base_lr, tautline submit --resume " + last.folder() +
                               " continues from its last good checkpoint, of clock " +
                               std::to_string(last.clock()));
}

TEST_CASE("a checkpoint whose test was not finite goes, and the good one before it stays",
          "[checkpoint]") {
  for (const std::uint32_t keep : {0U, 1U, 2U}) {
    Cluster cluster;
    cluster.at("w0").worker.tests = true;
    const std::uint64_t job = cluster.start(saved_job(30, keep));
    REQUIRE(cluster.run_until([&] {
      const Clocks kept = cluster.kept(job);
      return !kept.empty() && kept.back() == 30;
    }));
    // The test of its parameters has not ended, so an older one has not gone for it.
    const Clocks before = cluster.kept(job);
    REQUIRE(before.size() >= 2);
    const std::string last = cluster.status(job).checkpoints().rbegin()->folder();
    cluster.at("w0").worker.fails = "the loss of the test is nan";
    cluster.at("w0").worker.diverges = true;
    REQUIRE(cluster.run_until_state(job, pb::FAILED));
    CHECK(cluster.kept(job) == Clocks(before.begin(), before.end() - 1));
    CHECK(cluster.status(job).advice().find(
              fmt::format("its last good checkpoint, of clock {}", before[before.size() - 2])) !=
          std::string::npos);
    REQUIRE(cluster.tasks.back().kind == CheckpointTask::Kind::kRemove);
    REQUIRE(cluster.tasks.back().unkept.size() == 1);
    CHECK(cluster.tasks.back().unkept.front().folder == last);
    CHECK(cluster.noted("the checkpoint at clock 30 is removed: the training had diverged"));
  }
}

TEST_CASE("an older checkpoint goes when the newest has proved good, and not before",
          "[checkpoint]") {
  Cluster cluster;
  cluster.at("w0").worker.tests = true;
  const std::uint64_t job = cluster.start(saved_job(30, 1));
  REQUIRE(cluster.run_until([&] {
    const Clocks kept = cluster.kept(job);
    return !kept.empty() && kept.back() == 30;
  }));
  cluster.run_for(std::chrono::seconds(2));
  CHECK(cluster.kept(job).size() == 2);
  cluster.at("w0").worker.tests = false;
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.kept(job) == Clocks{30});
}

TEST_CASE("a manifest that cannot be written costs a checkpoint too", "[checkpoint]") {
  Cluster cluster;
  cluster.task_fails = "no such folder";
  const std::uint64_t job = cluster.start(saved_job(30));
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.kept(job).empty());
  CHECK(cluster.status(job).checkpoint_failure() ==
        "the checkpoint at clock 30 is not written: no such folder");
}

TEST_CASE("an order that arrives too late is repeated, further ahead", "[checkpoint]") {
  Cluster cluster;
  cluster.at("s0").server.late = 3;
  const std::uint64_t job = cluster.start(saved_job(400));
  REQUIRE(cluster.run_until([&] { return !cluster.kept(job).empty(); }));
  CHECK(cluster.noted("clock 10 was too late"));
  CHECK(cluster.kept(job).front() % 10 == 0);
  CHECK(cluster.tasks.size() == 4);
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.kept(job).back() == 400);
}

TEST_CASE("orders that always arrive too late are given up", "[checkpoint]") {
  Cluster cluster;
  cluster.at("s0").server.late = 1000;
  const std::uint64_t job = cluster.start(saved_job(30));
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.status(job).checkpoint_failure().find("were too late") != std::string::npos);
}

TEST_CASE("older checkpoints beyond those to keep are named for removal", "[checkpoint]") {
  Cluster cluster;
  const std::uint64_t job = cluster.start(saved_job(200, 2));
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.kept(job).size() == 2);
  CHECK(cluster.kept(job).back() == 200);
  std::vector<std::string> finished;
  std::vector<std::string> removed;
  for (const CheckpointTask& task : cluster.tasks) {
    if (task.kind == CheckpointTask::Kind::kFinish) finished.push_back(task.folder);
    for (const UnkeptCheckpoint& one : task.unkept) {
      removed.push_back(one.folder);
      CHECK(one.order > 0);
    }
  }
  finished.resize(finished.size() - 2);
  CHECK(removed == finished);
}

TEST_CASE("a checkpoint continues when the coordinator restarts during it", "[checkpoint]") {
  Cluster cluster;
  cluster.tasks_get_lost = true;
  const std::uint64_t job = cluster.start(saved_job(1000000));
  REQUIRE(cluster.run_until([&] { return !cluster.tasks.empty(); }));
  CHECK(cluster.kept(job).empty());
  cluster.tasks_get_lost = false;
  cluster.restart_coordinator(std::chrono::seconds(1));
  REQUIRE(cluster.run_until([&] { return !cluster.kept(job).empty(); }));
  CHECK(cluster.kept(job).front() == 10);
  CHECK(cluster.tasks.back().number == cluster.tasks.front().number);
  CHECK(cluster.broken().empty());
}

TEST_CASE("a checkpoint whose server was lost before the coordinator restarts is ordered again",
          "[checkpoint]") {
  // All parts were written, and the server's shard has moved since.
  pb::StoredJob stored;
  stored.set_job(1);
  stored.set_state(pb::RUNNING);
  *stored.mutable_definition() = saved_job(100);
  stored.add_modes();
  stored.add_servers()->set_name("s0");
  pb::StoredServer& lost = *stored.add_servers();
  lost.set_name("s1");
  lost.set_lost(true);
  lost.set_last_order(3);
  stored.set_checkpoints_ordered(3);
  stored.mutable_checkpoint()->set_clock(10);
  // A server that was lost before the order has no part in it.
  for (const std::uint64_t number : {3U, 4U}) {
    stored.mutable_checkpoint()->set_number(number);
    stored.set_checkpoints_ordered(number);
    JobRecord job = JobRecord::recover(stored, TimePoint());
    pb::CheckpointPart& part = *job.servers[0].reply.mutable_checkpoint();
    part.set_number(number);
    part.set_written(true);
    CheckpointTasks tasks;
    Notes notes;
    advance_checkpoint(job, std::chrono::minutes(10), TimePoint(), tasks, notes);
    REQUIRE(tasks.size() == 1);
    const bool is_complete = tasks.front().kind == CheckpointTask::Kind::kFinish;
    CHECK(is_complete == (number == 4));
    CHECK(job.stored().checkpoint().number() == 4);
  }
}

TEST_CASE("a job that fails drops the checkpoint under way", "[checkpoint]") {
  Cluster cluster;
  cluster.at("s1").server.stalls = true;
  const std::uint64_t job = cluster.start(saved_job(1000000));
  cluster.run_for(std::chrono::seconds(2));
  CHECK(cluster.tasks.empty());
  cluster.kill("s1");
  REQUIRE(cluster.run_until_state(job, pb::FAILED));
  REQUIRE(cluster.tasks.size() == 1);
  CHECK(cluster.tasks.front().kind == CheckpointTask::Kind::kDrop);
  CHECK(cluster.noted("its incomplete files are never used"));
}

TEST_CASE("a job whose last checkpoint hangs ends without it", "[checkpoint]") {
  FakeCluster cluster;
  cluster.options.checkpoint_limit = std::chrono::seconds(3);
  cluster.restart_coordinator(std::chrono::seconds(0));
  for (const char* name : {"s0"}) cluster.add_server(name).server.stalls = true;
  for (const char* name : {"w0", "w1"}) cluster.add_worker(name);
  cluster.run_for(std::chrono::seconds(1));
  const std::uint64_t job = cluster.submit(saved_job(20)).job();
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.status(job).checkpoint_failure().find("within 3 s") != std::string::npos);
}

TEST_CASE("a job that was without workers for longer than a checkpoint may take is saved again",
          "[checkpoint]") {
  Cluster cluster;
  const std::uint64_t job = cluster.start(saved_job(100000));
  cluster.options.worker_wait = std::chrono::hours(1);
  cluster.restart_coordinator(std::chrono::seconds(0));
  REQUIRE(cluster.run_until([&] { return !cluster.kept(job).empty(); }));
  for (const char* worker : {"w0", "w1"}) cluster.kill(worker);
  cluster.run_for(cluster.options.checkpoint_limit + std::chrono::minutes(1));
  REQUIRE(cluster.status(job).state() == pb::RUNNING);
  const Clocks before = cluster.kept(job);
  cluster.add_worker("w2");
  CHECK(cluster.run_until([&] { return cluster.kept(job).size() > before.size(); }));
  CHECK(cluster.kept(job).back() > before.back());
  CHECK(cluster.status(job).checkpoint_failure().empty());
}

TEST_CASE("checkpoints complete on a network that loses, repeats and delays", "[checkpoint]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Cluster cluster(seed, {.drop = 0.2, .duplicate = 0.2, .delay_max = Duration(300'000)});
    const std::uint64_t job = cluster.start(saved_job(300, 2));
    REQUIRE(cluster.run_until_state(job, pb::DONE));
    CHECK(cluster.kept(job).back() == 300);
    CHECK(cluster.broken().empty());
  }
}

TEST_CASE("a resumed job's members start at the checkpoint's clock", "[checkpoint]") {
  Cluster cluster;
  pb::ControlMessage request;
  pb::Submit& submit = *request.mutable_submit();
  *submit.mutable_definition() = saved_job(60);
  submit.mutable_definition()->set_resume("saved");
  submit.mutable_resume()->set_folder("saved/lenet_iter_40");
  submit.mutable_resume()->set_clock(40);
  submit.mutable_resume()->set_slots(2);
  const std::uint64_t job = cluster.ask(request).submit_reply().job();
  REQUIRE(cluster.run_until([&] { return cluster.at("w0").worker.job().has_value(); }));
  CHECK(cluster.at("w0").worker.job()->start_clock() == 40);
  CHECK(cluster.at("s0").server.state_of(job)->resume().folder() == "saved/lenet_iter_40");
  CHECK(cluster.at("s0").server.state_of(job)->checkpoint().clock() == 50);
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  CHECK(cluster.kept(job) == Clocks{50, 60});
  CHECK(cluster.status(job).resume().clock() == 40);
  CHECK(cluster.broken().empty());
}

TEST_CASE("an incremental checkpoint is ordered on top of the newest one that is complete",
          "[checkpoint][incremental]") {
  Cluster cluster;
  pb::Job definition = saved_job(60, 2);
  definition.mutable_checkpoint()->set_incremental(true);
  const std::uint64_t job = cluster.start(definition);
  std::vector<std::string> bases;
  REQUIRE(cluster.run_until([&] {
    const pb::ServerJob* state = cluster.at("s0").server.state_of(job);
    if (state != nullptr && state->has_checkpoint()) {
      const std::string& base = state->checkpoint().base();
      if (bases.empty() || bases.back() != base) bases.push_back(base);
    }
    return cluster.status(job).state() == pb::DONE;
  }));
  CHECK(cluster.kept(job).size() == 2);
  CHECK(cluster.kept(job).back() == 60);
  REQUIRE(bases.size() >= 2);
  CHECK(bases.front().empty());
  CHECK(bases[1] == "saved/lenet_iter_10");
  for (const CheckpointTask& task : cluster.tasks) {
    if (task.kind == CheckpointTask::Kind::kFinish) CHECK(task.manifest.format() == 2);
  }
}

TEST_CASE("checkpoints that there cannot be are refused with the setting", "[checkpoint]") {
  const auto refusal = [](auto&& change) {
    pb::Job job = saved_job(10);
    change(*job.mutable_checkpoint(), job);
    const auto checked = check_checkpoints(job);
    return checked ? std::string() : checked.error().message;
  };
  using Catch::Matchers::Contains;
  CHECK(refusal([](auto&, auto&) {}).empty());
  CHECK(refusal([](auto& options, auto&) { options.mutable_coded(); }).empty());
  CHECK_THAT(refusal([](auto& options, auto&) { options.mutable_coded()->set_data(0); }),
             Contains("data: 0 and parity: 2; they must be from 1 to 32 and from 1 to 16"));
  CHECK_THAT(refusal([](auto& options, auto&) { options.mutable_coded()->set_parity(17); }),
             Contains("parity: 17"));
  CHECK_THAT(refusal([](auto& options, auto&) {
               options.mutable_coded();
               options.set_incremental(true);
             }),
             Contains("incremental and coded do not go together"));
  CHECK_THAT(refusal([](auto& options, auto& job) {
               options.mutable_coded();
               auto& layer = *job.mutable_net_param()->add_layer();
               layer.set_type("LSTM");
               layer.add_bottom("a");
               layer.add_bottom("b");
             }),
             Contains("coded cannot be combined with state that workers keep"));
}

}  // namespace taut
