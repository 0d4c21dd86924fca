// The model of a job's speed.
#include "lab/schedule/throughput.hpp"

#include "lab/schedule/fair_share.hpp"
#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

TEST_CASE("a job's speed is 1 with what it asks for", "[schedule]") {
  const Cluster cluster = test_cluster("4x4", 2);
  for (const std::uint32_t workers : {1U, 4U, 8U, 16U}) {
    const Job job = test_job(0, workers, 100, "vgg16");
    const Tier tier = workers <= 4 ? Tier::kHost : workers <= 8 ? Tier::kRack : Tier::kCluster;
    CHECK(cluster.nearest_tier(workers) == tier);
    CHECK(speed_of(job, {.workers = workers, .tier = tier}, cluster) == Approx(1));
  }
}

TEST_CASE("what is lent, or of another type, is no nearer place for a job", "[schedule]") {
  Cluster cluster = test_cluster("4x4:V100,8x1:K80");
  cluster.add_hosts(1, 16, DeviceType::kT4, 0, true);
  CHECK(cluster.nearest_tier(16) == Tier::kRack);
  std::vector<bool> usable(cluster.hosts.size(), true);
  CHECK(cluster.nearest_tier(16, DeviceType::kT4, usable) == Tier::kHost);
  CHECK(cluster.nearest_tier(4, DeviceType::kV100, usable) == Tier::kHost);
  CHECK(cluster.nearest_tier(4, DeviceType::kK80, usable) == Tier::kRack);
  usable.back() = false;
  CHECK(cluster.nearest_tier(16, DeviceType::kT4, usable) == Tier::kCluster);
  // A policy that uses no host on loan runs its jobs as without them.
  Cluster lending = test_cluster("2x4");
  lending.add_hosts(1, 8, DeviceType::kV100, 0, true);
  const auto jobs = numbered({test_job(0, 8, 100, "vgg16")});
  CHECK(run_policy("fifo", jobs, lending).jobs[0].ended_s == Approx(100));
}

TEST_CASE("policies without loans decide as if nothing were lent", "[schedule]") {
  const Cluster own = test_cluster("2x4:V100,1x8:P100");
  Cluster lending = own;
  lending.add_hosts(1, 8, DeviceType::kV100, 0, true);
  // Eight workers are faster on the P100 host than on two V100 hosts, though not than on the one
  // that is lent; four on a V100 host gain from four more only if all are on one host.
  for (const char* const name : {"gavel", "allox", "lyra-own"}) {
    for (const Job& job : {test_job(0, 8, 100, "vgg16"), test_job(0, 4, 1000, "vgg16")}) {
      INFO(name << ", " << job.workers << " workers");
      CHECK(ends(run_policy(name, numbered({job}), lending)) ==
            ends(run_policy(name, numbered({job}), own)));
    }
  }
}

TEST_CASE("more workers are faster, by less than their number", "[schedule]") {
  const Cluster cluster = test_cluster("4x8");
  const Job job = test_job(0, 2, 100, "resnet50");
  const double four = speed_of(job, {.workers = 4, .tier = Tier::kHost}, cluster);
  CHECK(four > 1.5);
  CHECK(four < 2);
}

TEST_CASE("a net of many parameters suffers from distance, a small one does not", "[schedule]") {
  const Cluster cluster = test_cluster("4x4", 2);
  const Job large = test_job(0, 4, 100, "vgg16");
  const Job small = test_job(0, 4, 100, "dqn");
  const Setting far{.workers = 4, .tier = Tier::kCluster};
  CHECK(speed_of(large, far, cluster) < 0.3);
  CHECK(speed_of(small, far, cluster) == Approx(1));
}

TEST_CASE("types of devices have the published ratios", "[schedule]") {
  const Cluster cluster = test_cluster("1x1");
  const Setting k80{.workers = 1, .type = DeviceType::kK80};
  CHECK(speed_of(test_job(0, 1, 100, "resnet50"), k80, cluster) == Approx(0.15));
  CHECK(speed_of(test_job(0, 1, 100, "a2c"), k80, cluster) == Approx(0.4));
}

TEST_CASE("jobs that need different stages lose little on the same devices", "[schedule]") {
  const Job input = test_job(0, 1, 100, "dqn");
  const Job device = test_job(0, 1, 100, "gpt2");
  const Job* const different[] = {&input, &device};
  const Job* const same[] = {&input, &input};
  CHECK(packed_factor(different) > 0.95);
  CHECK(packed_factor(same) < 0.6);
  // Both make an iteration while the slower one makes its own.
  CHECK(interleaved_cycle_s(different) < input.iteration_s + 0.01);
  CHECK(interleaved_cycle_s(same) == Approx(0.446 + 0.446).epsilon(0.05));
  CHECK(interleaving_efficiency(different) > interleaving_efficiency(same));
}

TEST_CASE("a fair share is that of a fluid", "[schedule]") {
  // Alone for 50 s; two for 4 devices, each half as fast as it asks for; then alone again.
  const std::vector<Job> jobs = {test_job(0, 4, 100), test_job(50, 4, 100)};
  const std::vector<double> both = fair_share_s(jobs, 4);
  CHECK(both[0] == Approx(150));
  CHECK(both[1] == Approx(150));
  // What a small job leaves goes to the large one.
  const std::vector<Job> uneven = {test_job(0, 1, 100), test_job(0, 3, 100)};
  CHECK(fair_share_s(uneven, 4)[1] == Approx(100));
  const std::vector<Job> tight = {test_job(0, 1, 100), test_job(0, 4, 100)};
  CHECK(fair_share_s(tight, 4)[0] == Approx(100));
  CHECK(fair_share_s(tight, 4)[1] == Approx(100 + 25));
}

}  // namespace
}  // namespace taut::schedule
