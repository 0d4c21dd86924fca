#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <vector>

#include "common/result.hpp"
#include "lab/schedule/invariants.hpp"
#include "lab/schedule/placement.hpp"
#include "lab/schedule/policy.hpp"

namespace taut::schedule {

struct SimulationOptions {
  /// What a stopped job loses when it starts on other devices, or on more or fewer.
  /// Source    Qiao et al., "Pollux", OSDI 2021, section 5.3: 30 s
  double restart_s = 30;
  /// What it loses on its previous devices, where its state has stayed in the hosts' memory.
  /// Source    Xiao et al., "Gandiva", OSDI 2018, section 4: suspending and resuming takes about a
  ///           second
  double resume_s = 1;
  /// Called now and then with the number of ended jobs.
  std::function<void(std::size_t ended)> progress{};
};

/// How the jobs fared, and the cluster with them.
struct SimulationResult {
  std::vector<JobState> jobs;
  double makespan_s = 0;  // from the first submission to the last end
  // Device-seconds until then.
  double usable_s = 0;     // of devices that could be used
  double held_s = 0;       // while a job had them
  double paused_s = 0;     // of those, while jobs were being started again
  double idle_wait_s = 0;  // in which no job had them although jobs waited
  double joules = 0;
  std::uint64_t decisions = 0;
  double decide_s = 0;      // of this machine's time
  double decide_max_s = 0;  // the longest one
};

/// Simulates jobs on a cluster in virtual time, event by event: a job arrives or ends, a host is
/// lent or returns, the policy decides. The same jobs, cluster and policy give the same result.
/// Thread    one
class Simulator {
 public:
  /// REQUIRES  jobs by submission, from 0; each fits on the cluster's own devices
  Simulator(std::span<const Job> jobs, const Cluster& cluster, Policy& policy,
            const SimulationOptions& options);

  /// Errors    an invariant is broken: which one, when, by which job
  [[nodiscard]] Result<SimulationResult> run();

 private:
  struct Finish {
    double at_s;
    JobIndex job;
    std::uint32_t version;
    bool operator>(const Finish& other) const {
      return at_s != other.at_s ? at_s > other.at_s : job > other.job;
    }
  };

  [[nodiscard]] double next_event_s();
  void advance(double to_s);
  /// Returns whether a job arrived or ended, or a host joined or left.
  bool handle_events();
  void arrive(JobIndex job);
  void end(JobIndex job);
  void lend(std::uint32_t hosts);
  void take_back(HostIndex host);
  [[nodiscard]] HostIndex cheapest_to_return() const;

  void decide();
  void apply(const Plan& plan);
  void stop_preempted(const Plan& plan);
  [[nodiscard]] bool must_move(const Grant& grant);
  /// Returns whether the job has its devices.
  bool carry_out(const Grant& grant);
  void start(const Grant& grant);
  [[nodiscard]] double frequency_of(const Grant& grant) const;
  void grow(const Grant& grant, std::uint32_t more);
  void shrink(JobIndex job, std::uint32_t less);
  void move_nearer(const Grant& grant);
  void stop(JobIndex job);
  void set_speeds(const Plan& plan);
  void set_speeds_of(const std::vector<JobIndex>& group);
  /// Removes a finished job from the sharers of its devices.
  void close_ranks(JobIndex gone);
  void set_speed(JobIndex job, double factor);

  void settle(JobIndex job);
  void pause(JobIndex job, double seconds);
  void hold(const std::vector<DeviceIndex>& devices);
  void let_go(const std::vector<DeviceIndex>& devices);
  /// Releases everything that a job has.
  void release_all(JobIndex job);
  /// Whether a job has a share of its device, next to other jobs with theirs.
  [[nodiscard]] bool has_share(JobIndex job) const {
    return policy_.counts_shares() && jobs_[job].parts() < kPartsOfDevice;
  }
  void count_idle();
  /// The watts that lower frequencies save.
  [[nodiscard]] double saved_watts() const;
  [[nodiscard]] Setting setting_of(JobIndex job) const;
  JobState& state(JobIndex job) { return view_.states_[job]; }

  const std::span<const Job> jobs_;
  const Cluster& cluster_;
  Policy& policy_;
  const SimulationOptions& options_;
  View view_;
  Placement placement_;
  Invariants invariants_;
  SimulationResult result_;
  JobIndex next_arrival_ = 0;
  std::size_t next_loan_ = 0;
  std::uint32_t lent_ = 0;
  double wake_s_;
  std::vector<JobIndex> running_;
  std::vector<std::uint32_t> users_;    // jobs on each device
  std::vector<std::uint32_t> version_;  // of each job's end
  std::vector<std::uint32_t> stamp_;    // of each job: the decision that last granted it devices
  std::vector<const Grant*> grant_of_;
  std::vector<bool> changed_;      // devices or neighbours: its speed must be computed again
  std::vector<bool> shared_;       // with others at the last decision
  std::vector<bool> interleaved_;  // and interleaved
  bool has_slow_clocks_ = false;   // the policy has lowered a frequency
  std::priority_queue<Finish, std::vector<Finish>, std::greater<>> finishes_;
  std::uint32_t decision_ = 0;
  std::uint32_t idle_decisions_ = 0;
  std::size_t ended_ = 0;
};

}  // namespace taut::schedule
