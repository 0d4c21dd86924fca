// What `tautline lab plan` says of a job on each kind of host alone.
#include "lab/training/costs/throughput_plan.hpp"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/unit/lab/tiny_training.hpp"

namespace taut::lab {
namespace {

/// A worker's clock takes 200 ms on the three hosts "w", and half of that on a device of the two
/// hosts "fast".
ScalingOptions kinds_of_hosts(const std::string& job) {
  const TrainingOptions tiny = tiny_training(
      job,
      "compute { clock_ms: 200 batch: 4 }"
      "host { name: \"fast\" count: 2 workers: 4 devices: 2 cores: 8 speed: 2 link: \"card\" }");
  ScalingOptions options;
  options.job = tiny.job;
  options.cluster = tiny.cluster;
  options.workers = {1, 2, 4};
  return options;
}

TEST_CASE("a throughput is by the kind of host, on one and on as few as can be", "[lab]") {
  const auto plan = plan_throughput(kinds_of_hosts("solver_param { base_lr: 0.1 max_iter: 50 }"));
  if (!plan) FAIL(plan.error().message);
  CHECK(plan.value().net == "n");
  std::vector<std::tuple<std::string, bool, std::uint32_t>> kinds;
  for (const KindRate& one : plan.value().rates) {
    kinds.emplace_back(one.kind, one.across, one.workers);
    INFO(one.kind << ", " << one.workers << " workers");
    CHECK(one.iterations_per_s ==
          Approx(one.workers * (one.kind == "fast" ? 10 : 5)).epsilon(0.02));
  }
  // A host "w" has one worker; a host "fast" one on each of its devices.
  CHECK(kinds == decltype(kinds){{"w", false, 1},
                                 {"w", true, 2},
                                 {"fast", false, 1},
                                 {"fast", false, 2},
                                 {"fast", true, 2},
                                 {"fast", true, 4}});
}

TEST_CASE("the throughput of a batch that workers share is that of the batch", "[lab]") {
  const auto plan = plan_throughput(
      kinds_of_hosts("global_batch: true solver_param { base_lr: 0.1 max_iter: 50 }"));
  if (!plan) FAIL(plan.error().message);
  for (const KindRate& one : plan.value().rates) {
    INFO(one.kind << ", " << one.workers << " workers");
    CHECK(one.iterations_per_s ==
          Approx(one.workers * (one.kind == "fast" ? 10 : 5)).epsilon(0.05));
  }
}

TEST_CASE("a throughput that is checked is the lab's", "[lab]") {
  ScalingOptions options = kinds_of_hosts("solver_param { base_lr: 0.1 max_iter: 50 }");
  options.workers = {2};
  options.slacks = {Slack(0)};
  // Each worker takes 100 ms longer for a clock, of which the formula knows nothing.
  options.job.add_straggler()->set_delay_ms(100);
  options.checks = true;
  const auto plan = plan_throughput(options);
  if (!plan) FAIL(plan.error().message);
  CHECK(plan.value().rates.front().iterations_per_s == Approx(2 / 0.3).epsilon(0.05));
}

TEST_CASE("a throughput under several slacks is refused", "[lab]") {
  ScalingOptions options = kinds_of_hosts("solver_param { base_lr: 0.1 max_iter: 50 }");
  options.slacks = {Slack(0), Slack(3)};
  CHECK(plan_throughput(options).error().message ==
        "--slack: a throughput is that under one slack; give one");
}

}  // namespace
}  // namespace taut::lab
