// The simulation: what a decision does to jobs, devices and time.
#include "lab/schedule/simulator.hpp"

#include <functional>

#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

/// Decides as a test says.
class Scripted : public Policy {
 public:
  using Script = std::function<Plan(const View& view)>;
  explicit Scripted(Script script, double round_s = 0)
      : script_(std::move(script)), round_s_(round_s) {}
  [[nodiscard]] double round_s() const override { return round_s_; }
  [[nodiscard]] bool is_elastic() const override { return true; }
  [[nodiscard]] Plan decide(const View& view) override { return script_(view); }

 private:
  const Script script_;
  const double round_s_;
};

TEST_CASE("a job that is alone takes its service", "[schedule]") {
  const std::vector<Job> jobs = numbered({test_job(0, 4, 100), test_job(500, 1, 10)});
  const SimulationResult result = run_policy("fifo", jobs, test_cluster("1x4"));
  CHECK(ends(result) == std::vector<double>{100, 510});
  CHECK(result.makespan_s == 510);
  CHECK(result.held_s == Approx(4 * 100 + 10));
  CHECK(result.usable_s == Approx(4 * 510));
  CHECK(result.idle_wait_s == 0);
  CHECK(result.joules == Approx(300 * 410 + 30 * (4 * 510 - 410)));
}

TEST_CASE("a job that is stopped continues where it was, after a pause", "[schedule]") {
  const std::vector<Job> jobs = numbered({test_job(0, 4, 100), test_job(40, 4, 10)});
  const Cluster cluster = test_cluster("1x4");
  Scripted policy([](const View& view) {
    Plan plan;
    plan.grants.push_back({.job = view.active().back(), .workers = 4});
    return plan;
  });
  const SimulationOptions options{.restart_s = 30, .resume_s = 5, .progress = {}};
  const auto result = Simulator(jobs, cluster, policy, options).run();
  REQUIRE(result);
  CHECK(result.value().jobs[1].ended_s == 50);
  // It comes back to the devices that it had.
  CHECK(result.value().jobs[0].ended_s == Approx(50 + 5 + 60));
  CHECK(result.value().jobs[0].preemptions == 1);
  CHECK(result.value().paused_s == Approx(4 * 5));
  CHECK(result.value().jobs[0].attained_s == Approx(4 * (40 + 65)));
}

TEST_CASE("a job that moves or is resized starts again", "[schedule]") {
  const std::vector<Job> jobs = numbered({test_job(0, 2, 100)});
  const Cluster cluster = test_cluster("1x4:V100,1x4:K80");
  Scripted policy([](const View& view) {
    Plan plan;
    plan.wake_s = view.now_s() < 20 ? 20 : view.now_s() < 50 ? 50 : 1e9;
    Grant grant{.job = 0, .workers = view.now_s() < 20 ? 2U : 4U, .type = DeviceType::kV100};
    if (view.now_s() >= 50) grant = {.job = 0, .workers = 2, .type = DeviceType::kV100};
    plan.grants.push_back(grant);
    return plan;
  });
  const SimulationResult result = run_policy(policy, jobs, cluster, 10);
  const double fast = speed_of(jobs[0], {.workers = 4}, cluster);
  CHECK(result.jobs[0].changes == 2);
  CHECK(result.jobs[0].ended_s == Approx(60 + 100 - 20 - 20 * fast));
}

TEST_CASE("jobs on the same devices share them", "[schedule]") {
  const std::vector<Job> jobs =
      numbered({test_job(0, 2, 100, "gpt2"), test_job(0, 2, 100, "gpt2")});
  Scripted policy([](const View& view) {
    Plan plan;
    const bool both = view.active().size() == 2;
    plan.grants.push_back({.job = view.active()[0], .workers = 2, .share = both ? 0.5 : 1});
    if (both) plan.grants.push_back({.job = 1, .workers = 2, .with = 0, .share = 0.5});
    return plan;
  });
  const SimulationResult result = run_policy(policy, jobs, test_cluster("1x2"));
  const Job* const pair[] = {&jobs[0], &jobs[1]};
  CHECK(result.jobs[0].ended_s == Approx(100 / packed_factor(pair)));
  CHECK(result.jobs[1].ended_s == Approx(100 / packed_factor(pair)));
  CHECK(result.jobs[0].attained_s == Approx(result.jobs[0].ended_s));
}

TEST_CASE("a policy of rounds decides at their multiples", "[schedule]") {
  const std::vector<Job> jobs = numbered({test_job(0, 1, 100), test_job(10, 1, 100)});
  std::vector<double> times;
  Scripted policy(
      [&times](const View& view) {
        times.push_back(view.now_s());
        return fill_in_order(view, view.active());
      },
      60);
  const SimulationResult result = run_policy(policy, jobs, test_cluster("1x2"));
  CHECK(times == std::vector<double>{0, 60, 120});
  CHECK(ends(result) == std::vector<double>{100, 160});
}

TEST_CASE("the same simulation gives the same bits", "[schedule]") {
  std::vector<Job> jobs;
  for (int i = 0; i < 200; ++i) jobs.push_back(test_job(i * 7, 1 + i % 4, 50 + (i * 37) % 400));
  jobs = numbered(jobs);
  for (const PolicyEntry& entry : policies()) {
    const auto first = run_policy(std::string(entry.name), jobs, test_cluster("3x4"), 30);
    const auto second = run_policy(std::string(entry.name), jobs, test_cluster("3x4"), 30);
    INFO(entry.name);
    CHECK(ends(first) == ends(second));
  }
}

}  // namespace
}  // namespace taut::schedule
