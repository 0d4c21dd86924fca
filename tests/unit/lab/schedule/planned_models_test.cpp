// Throughput that `tautline lab plan` has written.
#include "lab/schedule/traces/planned_models.hpp"

#include "lab/schedule/throughput.hpp"
#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

const std::string kHead = "model,type,placement,workers,iterations_per_s\n";

PlannedModels models_of(const std::string& lines) {
  auto models = parse_planned_models(kHead + lines, "plan.csv");
  if (!models) FAIL(models.error().message);
  return std::move(models.value());
}

/// On a V100 10 iterations/s, on four 30, on two hosts 16 and 20; half of that on a K80.
PlannedModels lenet() {
  return models_of(
      "LeNet,V100,host,1,10\nLeNet,V100,host,4,30\nLeNet,V100,across,2,16\n"
      "LeNet,V100,across,8,20\nLeNet,K80,host,1,5\nLeNet,K80,across,2,8\n");
}

Job lenet_job(std::uint32_t workers, double service_s, const PlannedModels& models,
              const Cluster& cluster) {
  std::vector<Job> jobs = {test_job(0, workers, service_s)};
  jobs[0].net = "lenet";
  plan_jobs(jobs, models, cluster);
  REQUIRE(jobs[0].planned != nullptr);
  return jobs[0];
}

TEST_CASE("rates of a plan are read as they were written, for any number of workers",
          "[schedule]") {
  const std::vector<PlannedRate> rates = {
      {.type = DeviceType::kT4, .iterations_per_s = 0.1},
      {.type = DeviceType::kT4, .across = true, .workers = 2, .iterations_per_s = 1.0 / 3}};
  const auto models = parse_planned_models(planned_csv("a,b", rates), "plan.csv");
  REQUIRE(models);
  REQUIRE(models.value().size() == 1);
  const PlannedModel& model = *models.value().front();
  CHECK(model.name() == "a_b");
  CHECK(model.iterations_per_s(DeviceType::kT4, false, 1) == 0.1);
  CHECK(model.iterations_per_s(DeviceType::kT4, true, 2) == 1.0 / 3);
  CHECK_FALSE(model.has(DeviceType::kV100, false));

  const PlannedModels nets = lenet();
  const auto rate = [&](bool across, std::uint32_t workers) {
    return nets.front()->iterations_per_s(DeviceType::kV100, across, workers);
  };
  CHECK(rate(false, 1) == Approx(10));
  CHECK(rate(false, 2) == Approx(10 + 20.0 / 3));
  CHECK(rate(false, 9) == Approx(30));
  CHECK(rate(true, 5) == Approx(18));
  // Of another type the fastest one's.
  CHECK(nets.front()->iterations_per_s(DeviceType::kT4, false, 1) == Approx(10));
}

TEST_CASE("a job with a plan is as fast as the plan says, by type, workers and hosts",
          "[schedule]") {
  const Cluster cluster = test_cluster("2x4:V100,2x4:K80");
  const Job job = lenet_job(1, 100, lenet(), cluster);
  CHECK(speed_of(job, {.workers = 1}, cluster) == Approx(1));
  CHECK(speed_of(job, {.workers = 4}, cluster) == Approx(3));
  CHECK(speed_of(job, {.workers = 8, .tier = Tier::kRack}, cluster) == Approx(2));
  CHECK(speed_of(job, {.workers = 1, .type = DeviceType::kK80}, cluster) == Approx(0.5));
  // One that asks for two hosts is at its speed there.
  const Job large = lenet_job(8, 100, lenet(), cluster);
  CHECK(speed_of(large, {.workers = 8, .tier = Tier::kRack}, cluster) == Approx(1));
  // An iteration of eight workers takes 8 / 20 s, and one of a worker alone 0.1 s.
  CHECK(large.iteration_s == Approx(0.4));
  CHECK(large.stage_s[1] == Approx(0.1));
  CHECK(large.stage_s[2] == Approx(0.3));
}

TEST_CASE("every policy runs jobs with a plan, and on the slower type they take longer",
          "[schedule]") {
  const PlannedModels models = lenet();
  const Cluster slow = test_cluster("1x4:K80");
  std::vector<Job> jobs = {test_job(0, 1, 100)};
  plan_jobs(jobs, models_of("LeNet,V100,host,1,10\nLeNet,K80,host,1,5\n"), slow);
  CHECK(ends(run_policy("fifo", numbered(jobs), slow)) == std::vector<double>{200});

  const Cluster cluster = test_cluster("2x4:V100,2x4:K80");
  std::vector<Job> many;
  for (int i = 0; i < 40; ++i) many.push_back(test_job(20 * i, 1U << (i % 4), 100 + 10 * (i % 7)));
  plan_jobs(many, models, cluster);
  many = numbered(std::move(many));
  for (const PolicyEntry& entry : policies()) {
    INFO(entry.name);
    CHECK(mean_completion_s(many, run_policy(std::string(entry.name), many, cluster, 30)) > 0);
  }
}

TEST_CASE("jobs get a plan by the net that they name, or any if they name none", "[schedule]") {
  const PlannedModels models = models_of("LeNet,V100,host,1,10\nother,V100,host,1,20\n");
  const Cluster cluster = test_cluster("1x4");
  std::vector<Job> jobs = numbered({test_job(0, 1, 1), test_job(0, 1, 1), test_job(0, 1, 1)});
  jobs[0].net = "LENET";
  jobs[1].net = "vgg16";
  const std::size_t before = jobs[1].model;
  plan_jobs(jobs, models, cluster);
  CHECK(jobs[0].planned->name() == "LeNet");
  CHECK(jobs[1].planned == nullptr);
  CHECK(jobs[1].model == before);
  CHECK(jobs[2].planned != nullptr);
}

TEST_CASE("a bad line of a plan is refused with file, line, column, value and what is required",
          "[schedule]") {
  const auto refused = [](const std::string& text) {
    const auto models = parse_planned_models(text, "plan.csv");
    REQUIRE_FALSE(models);
    return models.error().message;
  };
  CHECK(refused("a,b\n1,2\n") ==
        "plan.csv:1:1: the columns must be model,type,placement,workers,iterations_per_s, are "
        "\"a,b\"");
  CHECK(refused(kHead) == "plan.csv: must have at least one rate");
  CHECK(refused(kHead + "n,P4,host,1,2\n") ==
        "plan.csv:2:3: type must be V100, P100, K80 or T4, is \"P4\"");
  CHECK(refused(kHead + "n,T4,near,1,2\n") ==
        "plan.csv:2:6: placement must be host or across, is \"near\"");
  CHECK(refused(kHead + "n,T4,across,1,2\n") ==
        "plan.csv:2:13: workers must be a whole number from 2 to 65536, is \"1\"");
  CHECK(refused(kHead + "n,T4,host,1,0\n") ==
        "plan.csv:2:13: iterations_per_s must be a number greater than 0, is \"0\"");
  CHECK(refused(kHead + "n,T4,host,1,1\nn,T4,host,1,2\n") ==
        "plan.csv:3:11: workers must be a number that no earlier line has, is \"1\"");
  CHECK(refused(kHead + "n,T4,across,2,1\n") ==
        "plan.csv: model n must have a line with placement host");
}

TEST_CASE("a plan without a type of the cluster's devices is refused", "[schedule]") {
  const PlannedModels models = models_of("n,T4,host,1,1\n");
  CHECK(check_covers(models, test_cluster("1x4:T4"), "plan.csv"));
  const auto refused = [&](const char* hosts) {
    return check_covers(models, test_cluster(hosts), "plan.csv").error().message;
  };
  CHECK(refused("1x4") ==
        "plan.csv: model n must have a line of V100 with placement host, as the cluster has such "
        "devices; add it, or give other hosts");
  CHECK(refused("2x4:T4") ==
        "plan.csv: model n must have a line of T4 with placement across, as the cluster has such "
        "devices on several hosts; add it, or give other hosts");
}

}  // namespace
}  // namespace taut::schedule
