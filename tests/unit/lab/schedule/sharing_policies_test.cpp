// Policies that share devices, resize jobs, or choose types and places: on small workloads.
#include <numeric>

#include "lab/schedule/solvers/assignment.hpp"
#include "lab/schedule/solvers/grouping.hpp"
#include "lab/schedule/solvers/linear_program.hpp"
#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

using Times = std::vector<double>;

TEST_CASE("Themis gives the next lease to the job that is treated worst", "[schedule]") {
  // The second has waited for a lease, and for a short job that is much.
  const auto jobs = numbered({test_job(0, 4, 6000), test_job(60, 4, 300)});
  CHECK(ends(run_policy("themis", jobs, test_cluster("1x4"))) == Times{6300, 1500});
}

TEST_CASE("Themis auctions what a job leaves that ends before its lease", "[schedule]") {
  const auto jobs = numbered({test_job(0, 4, 300), test_job(60, 4, 300)});
  CHECK(ends(run_policy("themis", jobs, test_cluster("1x4"))) == Times{300, 600});
}

TEST_CASE("Gandiva gives jobs slices in turn", "[schedule]") {
  // Both need the input stage, so that they are not packed.
  const auto jobs = numbered({test_job(0, 4, 600), test_job(0, 4, 600)});
  const SimulationResult result = run_policy("gandiva", jobs, test_cluster("1x4"));
  CHECK(ends(result) == Times{900, 1200});
  CHECK(result.jobs[0].preemptions == 1);
}

TEST_CASE("Gandiva stops each of more jobs than fit for as long", "[schedule]") {
  // Two at a time, each for two slices of three.
  const auto jobs = numbered({test_job(0, 2, 1200), test_job(0, 2, 1200), test_job(0, 2, 1200)});
  CHECK(ends(run_policy("gandiva", jobs, test_cluster("1x4"))) == Times{1500, 1800, 1800});
}

TEST_CASE("Gandiva packs jobs that hardly slow each other", "[schedule]") {
  const auto jobs = numbered({test_job(0, 4, 600, "dqn"), test_job(0, 4, 600, "gpt2")});
  const SimulationResult result = run_policy("gandiva", jobs, test_cluster("1x4"));
  CHECK(result.jobs[0].started_s == 0);
  CHECK(result.jobs[1].started_s == 0);
  CHECK(result.makespan_s < 620);
}

TEST_CASE("Gandiva moves a job together when none waits", "[schedule]") {
  // The third is placed on two hosts; when the others have ended it moves to one.
  const Cluster cluster = test_cluster("2x4");
  const auto jobs = numbered({test_job(0, 2, 100), test_job(0, 2, 100), test_job(0, 2, 3000),
                              test_job(0, 2, 3000, "vgg16")});
  const auto spread =
      numbered({test_job(0, 3, 100), test_job(0, 3, 100), test_job(0, 2, 3000, "vgg16")});
  const SimulationResult result = run_policy("gandiva", spread, cluster, 30);
  CHECK(result.jobs[2].changes == 1);
  CHECK(result.jobs[2].ended_s < 3300);
}

TEST_CASE("AlloX runs each job where that is least loss", "[schedule]") {
  // A game is 2.5 times slower on the K80, a convolution more than 6 times. With three on the V100
  // the last would end at 3000 s.
  const auto jobs = numbered({test_job(0, 2, 1000, "a2c"), test_job(0, 2, 1000, "resnet50"),
                              test_job(0, 2, 1000, "resnet50")});
  const SimulationResult result = run_policy("allox", jobs, test_cluster("1x2:V100,1x2:K80"));
  CHECK(result.jobs[0].ended_s == Approx(2500));
  CHECK(result.jobs[1].ended_s + result.jobs[2].ended_s == Approx(3000));
  // Where waiting is shorter than the slower device, it waits.
  const auto alike = numbered({test_job(0, 2, 1000, "vgg16"), test_job(0, 2, 100, "vgg16")});
  const SimulationResult queued = run_policy("allox", alike, test_cluster("1x2:V100,1x2:K80"));
  CHECK(queued.jobs[1].ended_s == Approx(100));
  CHECK(queued.jobs[0].ended_s == Approx(1100));
}

TEST_CASE("Gavel gives fast devices to the jobs that gain most by them", "[schedule]") {
  const Cluster cluster = test_cluster("1x2:V100,1x2:K80");
  const auto jobs =
      numbered({test_job(0, 2, 72000, "a2c"), test_job(0, 2, 72000, "a2c"),
                test_job(0, 2, 72000, "resnet50"), test_job(0, 2, 72000, "resnet50")});
  const SimulationResult aware = run_policy("gavel", jobs, cluster);
  const SimulationResult blind = run_policy("gavel-blind", jobs, cluster);
  // The games make more of the slow devices, the convolutions of the fast ones.
  CHECK(aware.makespan_s < 0.95 * blind.makespan_s);
}

TEST_CASE("Gavel gives a large job its turn although other jobs come and go at each round",
          "[schedule]") {
  // Two small ones at each of twenty rounds, whose parts are twice as long as the large one's.
  std::vector<Job> jobs = {test_job(0, 2, 300)};
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 2; ++i) jobs.push_back(test_job(360.0 * round, 1, 300));
  }
  const SimulationResult result = run_policy("gavel", numbered(jobs), test_cluster("1x2"));
  // A third of the time is its part: it is owed a whole round after three.
  CHECK(result.jobs[0].ended_s <= 3 * 360);
}

TEST_CASE("Optimus gives more devices to the job that they shorten most", "[schedule]") {
  const auto jobs = numbered({test_job(0, 2, 10000, "dqn"), test_job(0, 2, 1000, "dqn")});
  const SimulationResult result = run_policy("optimus", jobs, test_cluster("1x6"));
  // Four for the long one, whose time an additional device shortens by more.
  CHECK(result.jobs[1].ended_s == Approx(1000));
  const double speed = speed_of(jobs[0], {.workers = 4}, test_cluster("1x6"));
  CHECK(result.jobs[0].ended_s == Approx(10000 / speed));
}

TEST_CASE("Optimus leaves no device idle that shortens a job, although it is few more",
          "[schedule]") {
  // The second has one device of ten and ends before the next round.
  const Cluster cluster = test_cluster("1x10");
  const auto jobs = numbered({test_job(0, 8, 72000), test_job(0, 2, 200)});
  const SimulationResult result = run_policy("optimus", jobs, cluster);
  CHECK(result.jobs[0].changes == 1);
  const double nine = speed_of(jobs[0], {.workers = 9}, cluster);
  const double ten = speed_of(jobs[0], {.workers = 10}, cluster);
  CHECK(result.jobs[0].ended_s == Approx(600 + (72000 - 600 * nine) / ten));
}

TEST_CASE("Lyra enlarges jobs with what is idle, and takes it back for those that wait",
          "[schedule]") {
  const Cluster cluster = test_cluster("1x4");
  const auto jobs = numbered({test_job(0, 2, 3000), test_job(300, 2, 300)});
  const SimulationResult result = run_policy("lyra", jobs, cluster);
  CHECK(result.jobs[1].started_s == 300);
  CHECK(result.jobs[0].changes == 2);
  const double fast = speed_of(jobs[0], {.workers = 4}, cluster);
  CHECK(result.jobs[0].ended_s == Approx(600 + (3000 - 300 * fast - 300) / fast));
}

TEST_CASE("Lyra takes no devices from a job that is about to end, if no other job needs them",
          "[schedule]") {
  const Cluster cluster = test_cluster("1x4");
  const auto jobs = numbered({test_job(0, 2, 680)});
  const SimulationResult result = run_policy("lyra", jobs, cluster, 30);
  CHECK(result.jobs[0].changes == 0);
  CHECK(result.jobs[0].ended_s == Approx(680 / speed_of(jobs[0], {.workers = 4}, cluster)));
}

TEST_CASE("Lyra uses hosts on loan while they are lent", "[schedule]") {
  Cluster cluster = test_cluster("1x2");
  cluster.add_hosts(1, 2, DeviceType::kV100, 0, true);
  cluster.loans = {{0, 1}, {900, 0}, {5000, 1}};
  const auto jobs = numbered({test_job(0, 2, 2000), test_job(0, 2, 2000)});
  const SimulationResult loans = run_policy("lyra", jobs, cluster, 0);
  CHECK(loans.jobs[0].started_s == 0);
  CHECK(loans.jobs[1].started_s == 0);
  // One of them is stopped when its host goes back, and continues where the other one was.
  CHECK(loans.jobs[0].preemptions + loans.jobs[1].preemptions == 1);
  CHECK(loans.makespan_s == Approx(2100 + 1100 / speed_of(jobs[0], {.workers = 2}, cluster)));
  const SimulationResult own = run_policy("lyra-own", jobs, cluster, 0);
  CHECK(own.jobs[0].started_s + own.jobs[1].started_s == 2100);
  CHECK(own.makespan_s == Approx(4100));
}

TEST_CASE("Lyra has a job on one of the cluster's own hosts while that has room", "[schedule]") {
  // The lent host would be filled by it, and stop it after 900 s.
  Cluster cluster = test_cluster("1x4");
  cluster.add_hosts(1, 2, DeviceType::kV100, 0, true);
  cluster.loans = {{0, 1}, {900, 0}};
  auto jobs = numbered({test_job(0, 2, 2000)});
  jobs[0].max_workers = 2;
  const SimulationResult result = run_policy("lyra", jobs, cluster);
  CHECK(result.jobs[0].preemptions == 0);
  CHECK(result.jobs[0].ended_s == Approx(2000));
}

TEST_CASE("Lyra gives a job its base back that lost devices with a host", "[schedule]") {
  Cluster cluster = test_cluster("2x4");
  cluster.add_hosts(1, 4, DeviceType::kV100, 0, true);
  cluster.loans = {{0, 1}, {25200, 0}};
  const auto jobs = numbered({test_job(0, 4, 46800), test_job(0, 8, 360000)});
  const SimulationResult result = run_policy("lyra", jobs, cluster);
  CHECK(result.jobs[0].ended_s == Approx(46800));
  // The second has 4 devices from the host's return on, and 8 again once the first has ended.
  CHECK(result.jobs[1].preemptions == 0);
  CHECK(result.jobs[1].changes == 2);
  const double slow = speed_of(jobs[1], {.workers = 4, .tier = Tier::kRack}, cluster);
  const double left_s = 360000 - 25200 - slow * (46800 - 25200);
  CHECK(result.jobs[1].ended_s == Approx(46800 + left_s).epsilon(0.001));
}

TEST_CASE("Muri interleaves jobs that use different stages", "[schedule]") {
  const Cluster cluster = test_cluster("1x4");
  const auto jobs = numbered({test_job(0, 4, 10000, "dqn"), test_job(0, 4, 10000, "dqn"),
                              test_job(0, 4, 10000, "gpt2"), test_job(0, 4, 10000, "gpt2")});
  const SimulationResult result = run_policy("muri", jobs, cluster);
  // Two groups of both kinds one after the other, each in little more than the time of a job.
  CHECK(result.makespan_s < 1.2 * 20000);
  CHECK(run_policy("fifo", jobs, cluster).makespan_s == 40000);
}

TEST_CASE("Muri runs jobs one after the other that would lose by sharing", "[schedule]") {
  // A vgg19 overlaps its stages: two that take turns make 0.7 of what one makes alone.
  const auto jobs = numbered({test_job(0, 4, 10000, "vgg19"), test_job(0, 4, 10000, "vgg19")});
  const SimulationResult result = run_policy("muri", jobs, test_cluster("1x4"));
  CHECK(result.jobs[0].ended_s == Approx(10000));
  // From the next round on.
  CHECK(result.jobs[1].started_s == Approx(10080));
  CHECK(result.jobs[1].ended_s == Approx(20080));
}

TEST_CASE("Muri gives a single job what its groups leave idle", "[schedule]") {
  // Four that lose by sharing are all that the devices could be enough for in groups of three.
  const auto jobs = numbered({test_job(0, 3, 1000, "vgg19"), test_job(0, 3, 1000, "vgg19"),
                              test_job(0, 3, 1000, "vgg19"), test_job(0, 3, 1000, "vgg19"),
                              test_job(0, 1, 9000, "vgg19")});
  CHECK(run_policy("muri", jobs, test_cluster("1x4")).jobs[4].started_s == 0);
}

TEST_CASE("a sensitive job waits for a near place, another one does not", "[schedule]") {
  const Cluster cluster = test_cluster("2x4");
  const auto busy = [](const char* model) {
    return numbered({test_job(0, 2, 500), test_job(0, 2, 500), test_job(0, 3, 500),
                     test_job(10, 4, 5000, model)});
  };
  // Three devices on one host and... none; the fourth job fits only in two pieces.
  CHECK(run_policy("network", busy("vgg16"), cluster).jobs[3].started_s == 500);
  CHECK(run_policy("network-blind", busy("vgg16"), cluster).jobs[3].started_s == 500);
  const auto split = [](const char* model) {
    return numbered({test_job(0, 2, 500), test_job(0, 3, 5000), test_job(10, 3, 5000, model)});
  };
  CHECK(run_policy("network", split("vgg16"), cluster).jobs[2].started_s == 500);
  CHECK(run_policy("network-blind", split("vgg16"), cluster).jobs[2].started_s == 10);
  CHECK(run_policy("network", split("dqn"), cluster).jobs[2].started_s == 10);
}

double cost_of(const std::vector<std::vector<double>>& costs,
               const std::vector<std::size_t>& columns) {
  double sum = 0;
  for (std::size_t row = 0; row < costs.size(); ++row) sum += costs[row][columns[row]];
  return sum;
}

TEST_CASE("an assignment costs least, as all of them say", "[schedule]") {
  std::uint64_t state = 7;
  const auto draw = [&state] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<double>(state >> 40U);
  };
  for (int round = 0; round < 200; ++round) {
    const std::size_t rows = 1 + static_cast<std::size_t>(draw()) % 4;
    const std::size_t columns = rows + static_cast<std::size_t>(draw()) % 3;
    std::vector<std::vector<double>> costs(rows, std::vector<double>(columns));
    for (auto& row : costs) {
      for (double& cost : row) cost = draw();
    }
    std::vector<std::size_t> order(columns);
    std::iota(order.begin(), order.end(), std::size_t{0});
    double least = 1e300;
    do {
      least = std::min(least, cost_of(costs, order));
    } while (std::ranges::next_permutation(order).found);
    const std::vector<std::size_t> found = least_cost_assignment(costs);
    CHECK(cost_of(costs, found) == Approx(least));
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < i; ++k) CHECK(found[i] != found[k]);
    }
  }
}

TEST_CASE("a linear program is solved, or has no solution", "[schedule]") {
  LinearProgram program;
  const std::size_t x = program.add_variable(3);
  const std::size_t y = program.add_variable(2, 3);
  program.add_row({{x, 1}, {y, 1}}, -LinearProgram::kNoLimit, 4);
  program.add_row({{x, 1}, {y, 3}}, -LinearProgram::kNoLimit, 6);
  const std::vector<double> values = program.maximize();
  REQUIRE(values.size() == 2);
  CHECK(values[x] == Approx(4));
  CHECK(values[y] == Approx(0).margin(1e-9));
  LinearProgram impossible;
  impossible.add_row({{impossible.add_variable(1, 1), 1}}, 2, LinearProgram::kNoLimit);
  CHECK(impossible.maximize().empty());
}

TEST_CASE("pairs have the greatest weight, and those of one kind may be paired", "[schedule]") {
  // 0 and 1 go best together, but each of them with its like is better in all.
  const auto weight = [](std::size_t a, std::size_t b) { return a == b ? 3.0 : 4.0; };
  std::uint32_t alike = 0;
  std::uint32_t mixed = 0;
  for (const Pairing& one : best_pairs({3, 5}, weight)) {
    (one.a == one.b ? alike : mixed) += one.pairs;
  }
  CHECK(mixed == 3);
  CHECK(alike == 1);
  CHECK(best_pairs({1, 0}, weight).empty());
  CHECK(best_pairs({2, 2}, [](std::size_t, std::size_t) { return 0.0; }).empty());
}

}  // namespace
}  // namespace taut::schedule
