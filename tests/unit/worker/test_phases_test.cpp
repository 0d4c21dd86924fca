#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/worker/tiny_job.hpp"

namespace taut::worker {
namespace {

using test::cpu;
using test::kEnd;
using test::kNoStop;
using test::local_cache;
using test::TinyJob;
using test::until;

}  // namespace

TEST_CASE("each test phase of a job is run on its own net", "[trainer]") {
  TinyJob tiny;
  pb::SolverParameter& solver = *tiny.job.mutable_solver_param();
  solver.add_test_iter(2);
  solver.add_test_iter(3);
  solver.add_test_state();
  solver.add_test_state()->add_stage("more");
  const JobAssets assets = tiny.assets();
  CHECK(assets.test_count() == 2);
  CHECK(assets.test_graph(2) == nullptr);
  const auto backend = cpu();
  const auto cache = local_cache(tiny, assets, *backend, 1);
  const auto phases = TestPhases::create(assets, *backend);
  REQUIRE(phases.has_value());
  const auto result = phases.value()->run(*cache, Clock(4), nullptr, kNoStop);
  REQUIRE(result.has_value());
  CHECK(result.value().clock == Clock(4));
  // Ten classes that nothing tells apart yet.
  CHECK(result.value().loss == Approx(2.3).margin(0.5));
}

TEST_CASE("the test at iteration 0 is of the initial values, whatever was applied since",
          "[trainer]") {
  TinyJob tiny;
  tiny.job.mutable_solver_param()->add_test_iter(2);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const auto phases = TestPhases::create(assets, *backend);
  REQUIRE(phases.has_value());
  const auto loss_at = [&](ParameterCache& cache, Clock clock) {
    const auto result = phases.value()->run(cache, clock, nullptr, kNoStop);
    REQUIRE(result.has_value());
    return result.value().loss;
  };
  const double initial = loss_at(*local_cache(tiny, assets, *backend, 1), Clock(1));

  std::vector<Replica> replicas;
  replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
  const auto trained = local_cache(tiny, assets, *backend, 1);
  const std::atomic<bool> stop = false;
  ProgressBoard board;
  Trainer trainer(replicas, *trained, nullptr, until(kEnd), board);
  REQUIRE(trainer.run(stop).has_value());
  CHECK(loss_at(*trained, Clock(0)) == initial);
  CHECK(loss_at(*trained, kEnd) != initial);
}

TEST_CASE("a test's accuracy is one of several: the last that counts the fewest guesses",
          "[trainer]") {
  TinyJob tiny;
  tiny.job.mutable_solver_param()->add_test_iter(2);
  const auto add_accuracy = [&](const std::string& name, std::uint32_t guesses) {
    pb::LayerParameter& layer = *tiny.job.mutable_net_param()->add_layer();
    layer.set_name(name);
    layer.set_type("Accuracy");
    layer.add_bottom("two");
    layer.add_bottom("label");
    layer.add_top(name);
    layer.mutable_accuracy_param()->set_top_k(guesses);
  };
  const auto tested = [&] {
    const JobAssets assets = tiny.assets();
    const auto backend = cpu();
    const auto cache = local_cache(tiny, assets, *backend, 1);
    const auto phases = TestPhases::create(assets, *backend);
    REQUIRE(phases.has_value());
    const auto result = phases.value()->run(*cache, Clock(0), nullptr, kNoStop);
    REQUIRE(result.has_value());
    return result.value();
  };
  const TestResult without = tested();
  CHECK_FALSE(without.accuracy.has_value());
  REQUIRE(without.outputs.size() == 1);
  CHECK(without.outputs[0].name == "loss");
  CHECK(without.outputs[0].value == Approx(without.loss));

  add_accuracy("any", 10);
  CHECK(tested().accuracy.value() == 1);
  add_accuracy("first", 1);
  add_accuracy("again", 1);
  add_accuracy("also any", 10);
  const TestResult result = tested();
  REQUIRE(result.accuracy.has_value());
  REQUIRE(result.outputs.size() == 5);
  CHECK(result.outputs[1].name == "any");
  CHECK(result.outputs[1].value == 1);
  CHECK(result.outputs[3].name == "again");
  CHECK(result.accuracy.value() == result.outputs[3].value);
  CHECK(result.accuracy.value() < 1);
}

TEST_CASE("a test counts for a class only the batches with labels of it", "[trainer]") {
  TinyJob tiny;
  // Eight images with the labels 0 to 7, each in one of the two batches.
  tiny.job.mutable_solver_param()->add_test_iter(2);
  pb::LayerParameter& layer = *tiny.job.mutable_net_param()->add_layer();
  layer.set_name("accuracy");
  layer.set_type("Accuracy");
  layer.add_bottom("two");
  layer.add_bottom("label");
  layer.add_top("all");
  layer.add_top("each");
  // Some of ten guesses are right.
  layer.mutable_accuracy_param()->set_top_k(5);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const auto cache = local_cache(tiny, assets, *backend, 1);
  const auto phases = TestPhases::create(assets, *backend);
  REQUIRE(phases.has_value());
  const auto result = phases.value()->run(*cache, Clock(0), nullptr, kNoStop);
  REQUIRE(result.has_value());
  const auto& outputs = result.value().outputs;
  REQUIRE(outputs.size() == 12);
  double right = 0;
  int known = 0;
  for (const OutputMeans::Mean& mean : outputs) {
    if (!mean.name.starts_with("each[") || !mean.is_known) continue;
    CHECK((mean.value == 0 || mean.value == 1));
    right += mean.value;
    ++known;
  }
  CHECK(known == 8);
  CHECK(right > 0);
  CHECK(right / 8 == Approx(result.value().accuracy.value()));
}

}  // namespace taut::worker
