#include <algorithm>
#include <string>
#include <utility>

#include "proto/config/job_state.hpp"
#include "proto/config/settle_compression.hpp"
#include "server/coordinator/job_life.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/coordinator/checkpoint_cluster.hpp"

using namespace std::chrono_literals;

namespace taut {
namespace {

using Push = pb::PushCompression;

/// A link of this many bytes a second, and codecs that take no time.
pb::CompressionCosts costs_of(double bytes_per_s) {
  pb::CompressionCosts costs;
  costs.set_bytes_per_s(bytes_per_s);
  costs.set_compute_s(0.01);
  const std::pair<Push::Scheme, std::uint64_t> schemes[] = {{Push::FLOAT32, 4000000},
                                                            {Push::FP16, 2000000},
                                                            {Push::BF16, 2000000},
                                                            {Push::INT8, 1000000}};
  for (const auto& [scheme, bytes] : schemes) {
    for (auto* list : {costs.mutable_push(), costs.mutable_pull()}) {
      pb::SchemeCost& cost = *list->Add();
      cost.set_scheme(scheme);
      cost.set_bytes(bytes);
    }
  }
  return costs;
}

constexpr double kSlow = 1e6;
constexpr double kFast = 1e11;

struct Choosing {
  explicit Choosing(std::uint32_t workers = 2, std::int32_t clocks = 1000000,
                    std::unique_ptr<CoordinatorStore> store = make_memory_store())
      : cluster(1, {}, std::move(store)) {
    cluster.add_server("s0");
    cluster.add_server("s1");
    for (std::uint32_t i = 0; i < workers; ++i) cluster.add_worker("w" + std::to_string(i));
    cluster.run_for(1s);
    definition = make_job(workers, clocks, 0);
    definition.mutable_compression()->add_push()->set_scheme(Push::AUTO);
    definition.mutable_compression()->add_pull()->set_scheme(pb::PullCompression::AUTO);
  }
  void submit() {
    const pb::SubmitReply reply = cluster.submit(definition);
    REQUIRE(reply.error() == "");
    job = reply.job();
  }
  FakeWorker& worker(const std::string& name) { return cluster.at(name).worker; }
  const pb::Job* definition_at(const std::string& name) {
    const auto& known = worker(name).job();
    return known ? &known->definition() : nullptr;
  }
  /// Whether a worker has its job, with AUTO.
  bool is_asked(const std::string& name) {
    return definition_at(name) != nullptr && chooses_compression(*definition_at(name));
  }
  Push::Scheme push_at(const std::string& name) {
    return definition_at(name)->compression().push(0).scheme();
  }

  FakeCluster cluster;
  pb::Job definition;
  std::uint64_t job = 0;
};

}  // namespace

TEST_CASE("schemes are chosen once every worker has measured, and before any trains",
          "[coordinator][auto]") {
  Choosing run;
  run.submit();
  REQUIRE(run.cluster.run_until([&] { return run.is_asked("w0") && run.is_asked("w1"); }));
  CHECK_FALSE(run.cluster.status(run.job).has_compression());
  run.worker("w0").measured = costs_of(kSlow);
  run.cluster.run_for(5s);
  CHECK(run.is_asked("w0"));
  CHECK(run.worker("w0").clock() == 0);
  run.worker("w1").measured = costs_of(kFast);
  REQUIRE(run.cluster.run_until([&] { return run.worker("w0").clock() > 5; }));
  CHECK(run.push_at("w0") == Push::INT8);
  CHECK(run.push_at("w1") == Push::INT8);
  const pb::JobStatus status = run.cluster.status(run.job);
  CHECK(
      status.compression().text().starts_with("push INT8, pull INT8: a clock should take 2.01 s"));
  const std::string note = "job 1: compression AUTO is " + status.compression().text();
  CHECK(std::ranges::count(run.cluster.notes, note) == 1);
  CHECK(run.cluster.broken().empty());
}

TEST_CASE("no worker has the choice before every server has it", "[coordinator][auto]") {
  Choosing run;
  run.submit();
  REQUIRE(run.cluster.run_until([&] { return run.is_asked("w0") && run.is_asked("w1"); }));
  run.cluster.at("s1").server.set_busy(true);
  for (const char* name : {"w0", "w1"}) run.worker(name).measured = costs_of(kSlow);
  REQUIRE(run.cluster.run_until([&] { return run.cluster.status(run.job).has_compression(); }));
  run.cluster.run_for(3s);
  CHECK(run.is_asked("w0"));
  CHECK(run.worker("w0").clock() == 0);
  run.cluster.at("s1").server.set_busy(false);
  REQUIRE(run.cluster.run_until([&] { return run.worker("w0").clock() > 5; }));
  for (const char* name : {"s0", "s1"}) {
    CHECK(job_hash(run.cluster.at(name).server.state_of(run.job)->definition()) ==
          job_hash(*run.definition_at("w0")));
  }
}

TEST_CASE("a worker that is lost before it has measured is not waited for", "[coordinator][auto]") {
  Choosing run(3);
  run.submit();
  REQUIRE(run.cluster.run_until([&] { return run.is_asked("w2"); }));
  run.worker("w0").measured = costs_of(kFast);
  run.worker("w1").measured = costs_of(kFast);
  run.cluster.kill("w2");
  REQUIRE(run.cluster.run_until([&] { return run.worker("w0").clock() > 5; }));
  CHECK(run.push_at("w0") == Push::FLOAT32);
  // One that joins later has what was chosen.
  run.cluster.add_worker("w3");
  REQUIRE(run.cluster.run_until([&] { return run.worker("w3").clock() > 5; }));
  CHECK(run.push_at("w3") == Push::FLOAT32);
  CHECK(run.worker("w3").job()->start_clock() > 0);
}

TEST_CASE("a job that is stopped before its schemes are chosen ends", "[coordinator][auto]") {
  Choosing run;
  run.submit();
  REQUIRE(run.cluster.run_until([&] { return run.is_asked("w0"); }));
  run.cluster.stop(run.job);
  REQUIRE(run.cluster.run_until_state(run.job, pb::STOPPED));
}

TEST_CASE("a coordinator that restarts asks again before the choice, and not after it",
          "[coordinator][auto]") {
  Choosing run;
  run.submit();
  REQUIRE(run.cluster.run_until([&] { return run.is_asked("w0") && run.is_asked("w1"); }));
  run.worker("w0").measured = costs_of(kSlow);
  run.cluster.run_for(1s);
  run.cluster.restart_coordinator(1s);
  run.worker("w1").measured = costs_of(kSlow);
  REQUIRE(run.cluster.run_until([&] { return run.worker("w0").clock() > 5; }));
  for (const char* name : {"w0", "w1"}) run.worker(name).measured = costs_of(kFast);
  run.cluster.restart_coordinator(1s);
  run.cluster.run_for(5s);
  CHECK(run.push_at("w0") == Push::INT8);
  CHECK(run.cluster.status(run.job).compression().compression().push(0).scheme() == Push::INT8);
}

TEST_CASE("a checkpoint has the choice, and the job that is resumed from it keeps it",
          "[coordinator][auto][checkpoint]") {
  test::CheckpointCluster cluster;
  pb::Job definition = test::saved_job(25);
  definition.mutable_compression()->add_push()->set_scheme(Push::AUTO);
  definition.mutable_compression()->add_pull()->set_scheme(pb::PullCompression::AUTO);
  const std::uint64_t job = cluster.start(definition);
  for (const char* name : {"w0", "w1"}) cluster.at(name).worker.measured = costs_of(kSlow);
  REQUIRE(cluster.run_until_state(job, pb::DONE));
  const pb::CheckpointManifest& manifest = cluster.tasks.back().manifest;
  CHECK(manifest.compression().text() == cluster.status(job).compression().text());
  CHECK(manifest.compression().compression().push(0).scheme() == Push::INT8);
  CHECK(manifest.definition().compression().push(0).scheme() == Push::INT8);

  pb::ResumePoint resume;
  resume.set_clock(10);
  *resume.mutable_compression() = manifest.compression();
  const pb::StoredJob kept = new_job(JobId(2), 2, definition, "", Slack(0), &resume);
  CHECK(kept.definition().compression().push(0).scheme() == Push::INT8);
  CHECK(kept.compression().text() == "push INT8, pull INT8, as before the checkpoint");
  resume.clear_compression();
  const pb::StoredJob asks = new_job(JobId(3), 3, definition, "", Slack(0), &resume);
  CHECK(chooses_compression(asks.definition()));
}

}  // namespace taut
