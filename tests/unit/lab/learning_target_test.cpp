// How soon trainings in the lab reach a target.
#include "lab/training/costs/learning_target.hpp"

#include <utility>

#include "tests/support/catch.hpp"
#include "tests/unit/lab/tiny_training.hpp"

namespace taut::lab {
namespace {

ScalingOptions options_of(const std::string& solver) {
  const TrainingOptions tiny =
      tiny_training("solver_param { base_lr: 0.1 max_iter: 40 " + solver + " }",
                    "compute { clock_ms: 20 batch: 4 spread: LOGNORMAL }");
  ScalingOptions options;
  options.job = tiny.job;
  options.cluster = tiny.cluster;
  options.cluster.mutable_host(1)->set_price_per_hour(0.5);
  options.slacks = {Slack(0), Slack::unbounded()};
  return options;
}

TargetRun run_of(const ScalingOptions& options, std::uint32_t workers, Slack slack,
                 const LearningTarget& target) {
  auto run = train_to_target(options, workers, slack, target, [] { return true; });
  if (!run) FAIL(run.error().message);
  return std::move(run.value());
}

TEST_CASE("a target is shown by a test's accuracy or by its loss", "[lab]") {
  const Playback::Test test{.clock = Clock(5), .at_s = 1, .accuracy = 0.8, .loss = 0.5};
  CHECK(LearningTarget{.accuracy = 0.8, .loss = {}}.is_reached(test));
  CHECK_FALSE(LearningTarget{.accuracy = 0.81, .loss = {}}.is_reached(test));
  CHECK(LearningTarget{.accuracy = {}, .loss = 0.5}.is_reached(test));
  CHECK_FALSE(LearningTarget{.accuracy = {}, .loss = 0.49}.is_reached(test));
  const Playback::Test plain{.clock = Clock(5), .at_s = 1, .accuracy = {}, .loss = 0.5};
  CHECK_FALSE(LearningTarget{.accuracy = 0.1, .loss = {}}.is_reached(plain));
}

TEST_CASE("a training ends at the first test that shows the target, at its virtual time", "[lab]") {
  const ScalingOptions options = options_of("test_interval: 5 test_iter: 1");
  for (const Slack slack : options.slacks) {
    INFO("slack " << slack.to_string());
    const TargetRun never = run_of(options, 2, slack, {.accuracy = {}, .loss = 1e-9});
    CHECK_FALSE(never.reached);
    CHECK_FALSE(never.has_failed);
    CHECK(never.price_per_hour == Approx(2 * 0.5));
    REQUIRE(never.best);
    const TargetRun run = run_of(options, 2, slack, {.accuracy = {}, .loss = never.best->loss});
    REQUIRE(run.reached);
    CHECK(run.reached->clock == never.best->clock);
    CHECK(run.reached->at_s == never.best->at_s);
    CHECK(run.reached->loss == never.best->loss);
    // A clock takes 20 ms on average.
    CHECK(run.reached->at_s > 0.01 * static_cast<double>(run.reached->clock.value()));
  }
}

TEST_CASE("a target of a job without tests is refused", "[lab]") {
  const auto run = train_to_target(options_of(""), 1, Slack(0), {.accuracy = {}, .loss = 1.0},
                                   [] { return true; });
  REQUIRE_FALSE(run);
  CHECK(run.error().message == "a target needs tests: set test_interval in the job's solver");
}

TEST_CASE("a training to a target ends where it is told to", "[lab]") {
  ScalingOptions options = options_of("test_interval: 5 test_iter: 1");
  options.job.mutable_solver_param()->set_max_iter(5000);
  const auto run =
      train_to_target(options, 3, Slack(0), {.accuracy = {}, .loss = 1e-9}, [] { return false; });
  REQUIRE_FALSE(run);
  CHECK(run.error().code == ErrorCode::kClosed);
}

}  // namespace
}  // namespace taut::lab
