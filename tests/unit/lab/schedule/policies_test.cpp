// What each policy does, on workloads small enough to follow.
#include <map>

#include "lab/schedule/workload.hpp"
#include "server/coordinator/queue/scheduling.hpp"
#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

using Times = std::vector<double>;

TEST_CASE("FIFO holds all jobs back behind the first that does not fit", "[schedule]") {
  const auto jobs = numbered({test_job(0, 3, 100), test_job(1, 4, 100), test_job(2, 1, 10)});
  CHECK(ends(run_policy("fifo", jobs, test_cluster("1x4"))) == Times{100, 200, 210});
}

TEST_CASE("backfilling starts a later job that delays no earlier one", "[schedule]") {
  const Cluster cluster = test_cluster("1x4");
  const auto jobs = numbered({test_job(0, 3, 100), test_job(1, 4, 100), test_job(2, 1, 10)});
  CHECK(ends(run_policy("backfill", jobs, cluster)) == Times{100, 200, 12});
  // One that would still run when the first is due to start does not.
  const auto late = numbered({test_job(0, 3, 100), test_job(1, 4, 100), test_job(2, 1, 99)});
  CHECK(ends(run_policy("backfill", late, cluster)) == Times{100, 200, 299});
}

TEST_CASE("shortest first orders those that wait, and stops none", "[schedule]") {
  const auto jobs = numbered({test_job(0, 4, 100), test_job(1, 4, 50), test_job(2, 4, 10)});
  CHECK(ends(run_policy("shortest", jobs, test_cluster("1x4"))) == Times{100, 160, 110});
}

/// The coordinator's policy, told of every job.
class WholeQueue : public Policy {
 public:
  explicit WholeQueue(pb::SchedulingConfig::Policy policy)
      : policy_(make_scheduling_policy(policy)) {}

  [[nodiscard]] Plan decide(const View& view) override {
    Plan plan;
    SchedulingState state;
    state.idle_workers = view.idle_devices();
    for (const JobIndex job : view.active()) {
      const std::uint32_t asked = view.job(job).workers;
      const double speed = view.is_running(job) ? view.state(job).speed : 1;
      const ScheduledJob one{.job = JobId(job + 1),
                             .min_workers = asked,
                             .max_workers = asked,
                             .workers = view.workers(job),
                             .service_s = view.attained_s(job),
                             .remaining_s = view.left_s(job) / speed};
      if (view.is_running(job)) plan.grants.push_back(keep(view, job));
      (view.is_running(job) ? state.running : state.waiting).push_back(one);
    }
    for (const auto& start : policy_->decide(state, {.shrinks = false, .preempts = false}).starts) {
      plan.grants.push_back(
          {.job = static_cast<JobIndex>(start.job.value() - 1), .workers = start.workers});
    }
    return plan;
  }

 private:
  const std::unique_ptr<SchedulingPolicy> policy_;
};

TEST_CASE("the coordinator's policies decide as if they were told of the whole queue",
          "[schedule]") {
  const Cluster cluster = test_cluster("4x4");
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    const Trace trace = make_workload(
        {.distribution = "gavel", .jobs = 300, .load = 1.2, .devices = 16, .seed = seed});
    CAPTURE(seed);
    const auto same = [&](const char* name, pb::SchedulingConfig::Policy policy) {
      WholeQueue whole(policy);
      return ends(run_policy(name, trace.jobs, cluster)) ==
             ends(run_policy(whole, trace.jobs, cluster));
    };
    CHECK(same("backfill", pb::SchedulingConfig::FIFO));
    CHECK(same("shortest", pb::SchedulingConfig::SHORTEST_REMAINING));
    CHECK(same("las", pb::SchedulingConfig::LEAST_ATTAINED_SERVICE));
  }
}

TEST_CASE("what each policy promises is what every event is held to", "[schedule]") {
  std::map<std::string, std::vector<std::string_view>> promises;
  for (const PolicyEntry& entry : policies()) {
    const Promise promise = entry.make()->promise();
    if (promise.keeps_order) promises["order"].push_back(entry.name);
    if (promise.keeps_reservation) promises["reservation"].push_back(entry.name);
    if (promise.takes_turns) promises["turns"].push_back(entry.name);
    if (promise.conserves_work) promises["work"].push_back(entry.name);
  }
  using Names = std::vector<std::string_view>;
  // The first three are what keeps a job from starving.
  CHECK(promises["order"] == Names{"fifo"});
  CHECK(promises["reservation"] == Names{"backfill", "las"});
  CHECK(promises["turns"] == Names{"gandiva"});
  CHECK(promises["work"] == Names{"srtf", "srtf-predicted", "tiresias", "themis"});
}

TEST_CASE("least attained service without preemption is the order of submission", "[schedule]") {
  const auto jobs = numbered({test_job(0, 4, 100), test_job(1, 4, 50), test_job(2, 4, 10)});
  CHECK(ends(run_policy("las", jobs, test_cluster("1x4"))) == Times{100, 150, 160});
}

TEST_CASE("shortest remaining stops a longer job for a shorter one", "[schedule]") {
  const auto jobs = numbered({test_job(0, 4, 100), test_job(10, 4, 50), test_job(20, 4, 10)});
  CHECK(ends(run_policy("srtf", jobs, test_cluster("1x4"))) == Times{160, 70, 30});
}

TEST_CASE("shortest remaining by prediction learns what a kind of job takes", "[schedule]") {
  // The first of each kind teach it; of the last two the one of the shorter kind goes first.
  const auto jobs = numbered({test_job(0, 4, 1000, "dqn"), test_job(2000, 4, 10, "bert"),
                              test_job(3000, 4, 1000, "dqn"), test_job(3001, 4, 10, "bert")});
  CHECK(ends(run_policy("srtf-predicted", jobs, test_cluster("1x4"))) ==
        Times{1000, 2010, 4010, 3011});
}

TEST_CASE("Tiresias puts a new job before one that has had its device-hour", "[schedule]") {
  const Cluster cluster = test_cluster("1x4");
  // 4 devices: the first queue is left after 900 s. Until then a later job waits.
  const auto jobs = numbered({test_job(0, 4, 2000), test_job(100, 4, 300)});
  CHECK(ends(run_policy("tiresias", jobs, cluster)) == Times{2300, 1200});
  const auto after = numbered({test_job(0, 4, 2000), test_job(1000, 4, 300)});
  CHECK(ends(run_policy("tiresias", after, cluster)) == Times{2300, 1300});
  // In the second queue it is the order of submission again.
  const auto both = numbered({test_job(0, 4, 2000), test_job(1000, 4, 1200)});
  CHECK(ends(run_policy("tiresias", both, cluster)) == Times{2900, 3200});
}

TEST_CASE("Tiresias lets a job that starves run at each eighth of the time", "[schedule]") {
  // Its device-hour is over after 900 s. Short ones go first then, which are more than enough.
  std::vector<Job> jobs = {test_job(0, 4, 2700)};
  for (int i = 0; i < 18; ++i) jobs.push_back(test_job(900, 4, 890));
  // It runs again from 8100 s on, and from 16200 s on, each time for 900 s.
  CHECK(run_policy("tiresias", numbered(jobs), test_cluster("1x4")).jobs[0].ended_s ==
        Approx(17100));
}

TEST_CASE("Tiresias sees a job cross the threshold although its times are rounded", "[schedule]") {
  const Cluster cluster = test_cluster("1x1");
  const auto jobs = numbered({test_job(0, 1, 0.3), test_job(0.1, 1, 1e5), test_job(100.1, 1, 100)});
  CHECK(run_policy("tiresias", jobs, cluster).jobs[2].ended_s == Approx(3700.3));
}

}  // namespace
}  // namespace taut::schedule
