// Every policy over random workloads: the invariants hold at each event, and every job ends.
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

std::vector<Job> random_jobs(std::mt19937_64& random, std::uint32_t devices) {
  std::vector<Job> jobs;
  double now = 0;
  const std::uint64_t count = 1 + random() % 60;
  for (std::uint64_t i = 0; i < count; ++i) {
    // Several at once, and gaps in which nothing runs.
    if (random() % 3 != 0) now += static_cast<double>(random() % 1000);
    if (random() % 30 == 0) now += 1e5;
    const auto size = static_cast<std::uint32_t>(1U << (random() % 5));
    Job job = test_job(now, std::min(devices, size), 1 + static_cast<double>(random() % 5000));
    job.model = random() % models().size();
    job.max_workers = std::min(devices, job.max_workers);
    set_stages_of_model(job);
    job.share = random() % 2 == 0 ? 1 : 0.25;
    jobs.push_back(job);
  }
  return numbered(jobs);
}

Cluster random_cluster(std::mt19937_64& random) {
  Cluster cluster;
  const auto rack = static_cast<std::uint32_t>(random() % 3);
  const std::uint64_t groups = 1 + random() % 3;
  for (std::uint64_t i = 0; i < groups; ++i) {
    const auto type =
        random() % 2 == 0 ? DeviceType::kV100 : static_cast<DeviceType>(random() % kDeviceTypes);
    cluster.add_hosts(static_cast<std::uint32_t>(1 + random() % 4),
                      static_cast<std::uint32_t>(1 + random() % 8), type, rack);
  }
  if (random() % 2 == 0) {
    cluster.add_hosts(2, 4, DeviceType::kT4, rack, true);
    for (int i = 0; i < 20; ++i) {
      cluster.loans.push_back(
          {.at_s = i * 777.0, .hosts = static_cast<std::uint32_t>(random() % 3)});
    }
  }
  return cluster;
}

TEST_CASE("the invariants hold for every policy over random workloads", "[schedule]") {
  const char* const given = std::getenv("TAUT_SCHEDULE_SEED");
  std::vector<std::uint64_t> seeds(40);
  std::iota(seeds.begin(), seeds.end(), std::uint64_t{1});
  seeds.push_back(1174);  // whose shares once broke a reservation
  if (given != nullptr) seeds = {std::strtoull(given, nullptr, 10)};
  for (const std::uint64_t seed : seeds) {
    for (const PolicyEntry& entry : policies()) {
      std::mt19937_64 random(seed);
      const Cluster cluster = random_cluster(random);
      const std::vector<Job> jobs = random_jobs(random, cluster.own_devices());
      INFO("TAUT_SCHEDULE_SEED=" << seed << ", policy " << entry.name);
      const SimulationResult result =
          run_policy(std::string(entry.name), jobs, cluster, static_cast<double>(random() % 60));
      double work = 0;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        CHECK(result.jobs[i].ended_s >= jobs[i].submit_s);
        work += result.jobs[i].attained_s;
      }
      // Shares of a device add up to no more than the time that it was held for.
      CHECK(work <= result.held_s * (1 + 1e-9) + 1e-6);
      CHECK(result.held_s <= result.usable_s * (1 + 1e-9) + 1e-6);
    }
  }
}

}  // namespace
}  // namespace taut::schedule
