// The checks of each event find a policy that breaks them.
#include "lab/schedule/invariants.hpp"

#include <algorithm>
#include <functional>

#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

class Broken : public Policy {
 public:
  using Script = std::function<Plan(const View& view)>;
  Broken(Promise promise, Script script, double round_s = 0)
      : promise_(promise), script_(std::move(script)), round_s_(round_s) {}
  [[nodiscard]] Promise promise() const override { return promise_; }
  [[nodiscard]] double round_s() const override { return round_s_; }
  [[nodiscard]] Plan decide(const View& view) override { return script_(view); }

 private:
  const Promise promise_;
  const Script script_;
  const double round_s_;
};

std::string broken(Promise promise, const std::vector<Job>& jobs, Broken::Script script,
                   double round_s = 0) {
  Broken policy(promise, std::move(script), round_s);
  const Cluster cluster = test_cluster("1x4");
  const SimulationOptions options;
  const auto result = Simulator(jobs, cluster, policy, options).run();
  return result ? "" : result.error().message;
}

TEST_CASE("a device that is given twice is found", "[schedule]") {
  const auto jobs = numbered({test_job(0, 2, 100), test_job(0, 2, 100)});
  CHECK(broken({}, jobs, [](const View&) {
          Plan plan;
          plan.grants = {{.job = 0, .workers = 2, .share = 0.5},
                         {.job = 1, .workers = 2, .with = 0, .share = 0.6}};
          return plan;
        }) == "at 0.000 s device 0 is given to 1.100 of itself, at last to job 1");
}

TEST_CASE("a job with a part of its gang is found", "[schedule]") {
  const auto jobs = numbered({test_job(0, 4, 100)});
  CHECK(broken({}, jobs, [](const View&) {
          Plan plan;
          plan.grants = {{.job = 0, .workers = 3}};
          return plan;
        }) == "at 0.000 s job 0 has 3 devices; it must have 4 to 4, or none");
}

TEST_CASE("a job that is passed over is found, where that is promised", "[schedule]") {
  const auto jobs = numbered({test_job(0, 4, 100), test_job(0, 1, 100)});
  const auto last_first = [](const View& view) {
    Plan plan;
    plan.grants.push_back(
        {.job = view.active().back(), .workers = view.job(view.active().back()).workers});
    return plan;
  };
  CHECK(broken({.keeps_order = true}, jobs, last_first) ==
        "at 0.000 s job 1 runs before job 0, which was submitted earlier");
  CHECK(broken({}, jobs, last_first).empty());
}

TEST_CASE("devices that are idle while a job waits for them are found", "[schedule]") {
  const auto jobs = numbered({test_job(0, 2, 100), test_job(0, 2, 100)});
  const auto one = [](const View& view) {
    Plan plan;
    plan.grants.push_back({.job = view.active().front(), .workers = 2});
    return plan;
  };
  CHECK(broken({.conserves_work = true}, jobs, one) ==
        "at 0.000 s job 1 waits for 2 devices while 2 are idle");
  CHECK(broken({}, jobs, one).empty());
}

TEST_CASE("a later job that delays the first one that waits is found, where that is promised",
          "[schedule]") {
  const auto jobs = numbered({test_job(0, 3, 100), test_job(1, 4, 100), test_job(2, 1, 500)});
  const auto greedy = [](const View& view) {
    std::vector<JobIndex> order = view.active();
    std::ranges::stable_partition(order, [&](JobIndex job) { return view.is_running(job); });
    return fill_in_order(view, order);
  };
  CHECK(broken({.keeps_reservation = true}, jobs, greedy) ==
        "at 2.000 s job 1 would have started at 100.000 s, and now at 502.000 s");
  CHECK(broken({}, jobs, greedy).empty());
}

/// Starts what fits in the order of submission, shares next to each other.
class GreedyOfShares : public Policy {
 public:
  [[nodiscard]] Promise promise() const override { return {.keeps_reservation = true}; }
  [[nodiscard]] bool counts_shares() const override { return true; }
  [[nodiscard]] Plan decide(const View& view) override {
    std::vector<JobIndex> order = view.active();
    std::ranges::stable_partition(order, [&](JobIndex job) { return view.is_running(job); });
    return fill_in_order(view, order);
  }
};

TEST_CASE("a later share of a device that delays the first job which waits is found",
          "[schedule]") {
  std::vector<Job> jobs = {test_job(0, 1, 100), test_job(1, 1, 100), test_job(2, 1, 500)};
  jobs[0].share = 0.5;
  jobs[2].share = 0.25;
  jobs = numbered(jobs);
  const Cluster cluster = test_cluster("1x1");
  GreedyOfShares policy;
  const SimulationOptions options;
  const auto result = Simulator(jobs, cluster, policy, options).run();
  REQUIRE_FALSE(result);
  CHECK(result.error().message ==
        "at 2.000 s job 1 would have started at 100.000 s, and now at 502.000 s");
}

TEST_CASE("a job that starves is found", "[schedule]") {
  const auto jobs = numbered({test_job(0, 4, 100), test_job(0, 4, 1e6)});
  const auto never_first = [](const View& view) {
    Plan plan;
    if (view.active().back() == 1) plan.grants.push_back({.job = 1, .workers = 4});
    return plan;
  };
  CHECK(broken({.takes_turns = true}, jobs, never_first, 60) ==
        "at 180.000 s job 0 has waited for 4 rounds, with 2 jobs ahead of it");
  const auto nothing = [](const View&) { return Plan(); };
  CHECK(broken({}, jobs, nothing) == "job 0 never ends: the policy starves it");
}

TEST_CASE("work that no device has made is found, and work that is lost", "[schedule]") {
  const auto jobs = numbered({test_job(0, 4, 100), test_job(10, 4, 100)});
  const auto jump = [](double by_s) {
    return [by_s](const View& view) {
      if (view.now_s() == 10) const_cast<JobState&>(view.state(0)).progress_s += by_s;
      return fill_in_order(view, view.active());
    };
  };
  CHECK(broken({}, jobs, jump(5)) ==
        "at 10.000 s job 0 has made 15.000 s of work since 0.000 s; it may make 0 to 10.000 s");
  CHECK(broken({}, jobs, jump(-15)) ==
        "at 10.000 s job 0 has made -5.000 s of work since 0.000 s; it may make 0 to 10.000 s");
  CHECK(broken({}, jobs, jump(0)).empty());
}

}  // namespace
}  // namespace taut::schedule
