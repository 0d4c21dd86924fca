// What policies that come later need of the interface: a trial of each kind.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

constexpr std::uint32_t kCells = 2;

/// Each cell is a separate cluster, with every second job.
class TwoCells : public Policy {
 public:
  explicit TwoCells(std::uint32_t devices) : devices_(devices) {}

  [[nodiscard]] Plan decide(const View& view) override {
    std::array<std::uint32_t, kCells> idle = {devices_, devices_};
    Plan plan;
    for (const JobIndex job : view.active()) {
      const std::uint32_t cell = job % kCells;
      for (const DeviceIndex device : view.state(job).devices) {
        CHECK(view.cluster().hosts[view.cluster().host_of[device]].cell == cell);
        ++seen_;
      }
      const std::uint32_t workers = view.job(job).workers;
      if (workers > idle[cell]) continue;
      idle[cell] -= workers;
      plan.grants.push_back({.job = job, .workers = workers, .cell = cell});
    }
    return plan;
  }

  [[nodiscard]] std::uint32_t seen() const { return seen_; }

 private:
  const std::uint32_t devices_;  // of a cell
  std::uint32_t seen_ = 0;       // devices of running jobs
};

/// The first job that waits gets a device, together with those behind it while they are few enough
/// and their memory suffices.
class PackedByMemory : public Policy {
 public:
  explicit PackedByMemory(double memory_gib) : memory_gib_(memory_gib) {}

  [[nodiscard]] Plan decide(const View& view) override {
    constexpr std::size_t kTogether = 3;
    Plan plan;
    double left = memory_gib_;
    for (const JobIndex job : view.active()) {
      const double needs = view.job(job).memory_gib;
      if (needs > left || plan.grants.size() == kTogether) continue;
      left -= needs;
      plan.grants.push_back({.job = job, .share = 1.0 / kTogether});
      if (plan.grants.size() > 1) plan.grants.back().with = plan.grants.front().job;
    }
    return plan;
  }

 private:
  const double memory_gib_;  // that it takes a device for
};

/// Full speed until a time, then a lower clock.
class SlowFrom : public Policy {
 public:
  SlowFrom(double from_s, double frequency) : from_s_(from_s), frequency_(frequency) {}

  [[nodiscard]] Plan decide(const View& view) override {
    const bool is_slow = view.now_s() >= from_s_;
    Plan plan;
    for (const JobIndex job : view.active()) {
      plan.grants.push_back({.job = job, .frequency = is_slow ? frequency_ : 1});
    }
    if (!is_slow) plan.wake_s = from_s_;
    return plan;
  }

 private:
  const double from_s_;
  const double frequency_;
};

/// The user that has used least for each of their tickets has the devices until the next round. A
/// job's name is its user's, then '/'.
class Tickets : public Policy {
 public:
  explicit Tickets(std::map<std::string, double> tickets) : tickets_(std::move(tickets)) {}

  [[nodiscard]] double round_s() const override { return 10; }
  [[nodiscard]] Plan decide(const View& view) override {
    std::map<std::string, double> used;  // device-seconds of active jobs
    for (const JobIndex job : view.active()) used[user_of(view, job)] += view.attained_s(job);
    std::vector<std::pair<double, JobIndex>> keyed;
    for (const JobIndex job : view.active()) {
      const std::string user = user_of(view, job);
      keyed.emplace_back(used[user] / tickets_.at(user), job);
    }
    return fill_by_key(view, std::move(keyed));
  }

 private:
  static std::string user_of(const View& view, JobIndex job) {
    const std::string& name = view.job(job).name;
    return name.substr(0, name.find('/'));
  }

  const std::map<std::string, double> tickets_;
};

}  // namespace

TEST_CASE("a policy may divide the cluster into cells", "[schedule]") {
  Cluster cluster = test_cluster("4x4");
  cluster.hosts[2].cell = cluster.hosts[3].cell = 1;
  TwoCells policy(8);
  // The two large ones wait, though twelve devices are idle: six in each cell.
  const auto jobs = numbered(
      {test_job(0, 2, 100), test_job(0, 2, 100), test_job(10, 8, 50), test_job(10, 8, 50)});
  const SimulationResult result = run_policy(policy, jobs, cluster);
  CHECK(ends(result)[0] == Approx(100));
  CHECK(ends(result)[1] == Approx(100));
  CHECK(ends(result)[2] == Approx(150));
  CHECK(ends(result)[3] == Approx(150));
  CHECK(policy.seen() > 0);
}

TEST_CASE("a policy may pack jobs by the memory that they take, and no more than there is",
          "[schedule]") {
  auto jobs = numbered({test_job(0, 1, 100), test_job(0, 1, 100), test_job(0, 1, 100)});
  for (Job& job : jobs) job.memory_gib = 6;
  const Cluster cluster = test_cluster("1x1");
  PackedByMemory policy(facts_of(DeviceType::kV100).memory_gib);
  const auto result = run_policy(policy, jobs, cluster);
  // Two fit; the third follows them.
  CHECK(ends(result)[0] == Approx(ends(result)[1]));
  CHECK(ends(result)[0] > 100);
  CHECK(ends(result)[2] == Approx(ends(result)[0] + 100));
  // One that takes the device for larger than it is.
  PackedByMemory wrong(20);
  const auto broken = Simulator(jobs, cluster, wrong, {}).run();
  REQUIRE_FALSE(broken);
  CHECK(broken.error().message ==
        "at 0.000 s the jobs on device 0 take 18.000 GiB of its 16, at last job 2");
}

TEST_CASE("a policy may give users' jobs devices by their tickets", "[schedule]") {
  auto jobs = numbered({test_job(0, 1, 300), test_job(0, 1, 300)});
  jobs[0].name = "alice/0";
  jobs[1].name = "bob/0";
  Tickets policy({{"alice", 3}, {"bob", 1}});
  // Of each 40 s alice has 30, until her job has ended; bob's has the rest then.
  CHECK(ends(run_policy(policy, jobs, test_cluster("1x1"))) == std::vector<double>{400, 600});
}

TEST_CASE("a policy may lower the clocks: jobs take longer, and less energy", "[schedule]") {
  const auto jobs = numbered({test_job(0, 1, 100)});
  const Cluster cluster = test_cluster("1x1");
  SlowFrom never(1e6, 0.5);
  const SimulationResult fast = run_policy(never, jobs, cluster);
  CHECK(ends(fast)[0] == Approx(100));
  CHECK(fast.joules == Approx(100 * 300));
  SlowFrom later(40, 0.5);
  const SimulationResult slow = run_policy(later, jobs, cluster);
  // What is left takes twice as long, for an eighth of the watts above the idle ones.
  CHECK(ends(slow)[0] == Approx(40 + 2 * 60));
  CHECK(slow.joules == Approx(40 * 300 + 120 * (30 + 270.0 / 8)));
}

}  // namespace taut::schedule
