// The orderings that the policies' papers publish, over workloads drawn from Gavel's distribution.
#include <algorithm>

#include "lab/schedule/fair_share.hpp"
#include "lab/schedule/report/figures.hpp"
#include "lab/schedule/workload.hpp"
#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

constexpr std::uint64_t kSeed = 1;

Figures figures_for(const std::string& policy, const Cluster& cluster, double load) {
  const Trace trace = make_workload({.distribution = "gavel",
                                     .jobs = 1000,
                                     .load = load,
                                     .devices = cluster.own_devices(),
                                     .max_workers = 8,
                                     .seed = kSeed});
  const SimulationResult result = run_policy(policy, trace.jobs, cluster, 30);
  return figures_of(policy, trace.jobs, fair_share_s(trace.jobs, cluster.own_devices()), result);
}

TEST_CASE("Tiresias and Muri complete jobs sooner than FIFO", "[schedule]") {
  const Cluster cluster = test_cluster("8x4");
  const Figures fifo = figures_for("fifo", cluster, 1);
  CHECK(figures_for("tiresias", cluster, 1).mean_s < 0.8 * fifo.mean_s);
  CHECK(figures_for("muri", cluster, 1).mean_s < 0.5 * fifo.mean_s);
}

TEST_CASE("Gavel treats all but a few jobs better than the same policy that is blind to types",
          "[schedule]") {
  const Cluster cluster = test_cluster("8x4:V100,8x4:P100,8x4:K80");
  const Figures aware = figures_for("gavel", cluster, 0.5);
  const Figures blind = figures_for("gavel-blind", cluster, 0.5);
  CHECK(aware.fairness_p95 < 0.9 * blind.fairness_p95);
}

TEST_CASE("Lyra completes jobs sooner with hosts on loan than without", "[schedule]") {
  Cluster cluster = test_cluster("8x4");
  REQUIRE(lend_by_night(cluster, "8x4:T4", 0, 1e8));
  CHECK(figures_for("lyra", cluster, 1).mean_s < 0.8 * figures_for("lyra-own", cluster, 1).mean_s);
}

TEST_CASE("Themis treats the job that it treats worst better than others do", "[schedule]") {
  const Cluster cluster = test_cluster("16x4");
  const double themis = figures_for("themis", cluster, 1).fairness_max;
  for (const char* const other : {"fifo", "backfill", "tiresias", "gandiva"}) {
    INFO(other);
    CHECK(themis < figures_for(other, cluster, 1).fairness_max);
  }
}

TEST_CASE("placement by sensitivity to the network shortens the makespan", "[schedule]") {
  const Cluster cluster = test_cluster("16x4", 4);
  const double aware = figures_for("network", cluster, 1).makespan_s;
  CHECK(aware < figures_for("network-blind", cluster, 1).makespan_s);
  CHECK(aware < figures_for("fifo", cluster, 1).makespan_s);
}

}  // namespace
}  // namespace taut::schedule
