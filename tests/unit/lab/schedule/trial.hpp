#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lab/schedule/policy_list.hpp"
#include "lab/schedule/simulator.hpp"
#include "tests/support/catch.hpp"

namespace taut::schedule {

/// A job for a test; its net is one that hardly communicates.
inline Job test_job(double submit_s, std::uint32_t workers, double service_s,
                    const char* model = "dqn") {
  Job job;
  job.model = find_model(model).value();
  job.submit_s = submit_s;
  job.service_s = service_s;
  job.workers = workers;
  job.min_workers = std::max(1U, workers / 2);
  job.max_workers = 2 * workers;
  set_stages_of_model(job);
  return job;
}

/// Gives the jobs their numbers as names.
inline std::vector<Job> numbered(std::vector<Job> jobs) {
  for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].name = std::to_string(i);
  return jobs;
}

inline Cluster test_cluster(const std::string& hosts, std::uint32_t rack_hosts = 0) {
  return parse_cluster(hosts, rack_hosts).value();
}

/// Runs to the end; an invariant that breaks fails the test.
inline SimulationResult run_policy(Policy& policy, const std::vector<Job>& jobs,
                                   const Cluster& cluster, double restart_s = 0) {
  const SimulationOptions options{.restart_s = restart_s, .resume_s = 0, .progress = {}};
  auto result = Simulator(jobs, cluster, policy, options).run();
  if (!result) FAIL(result.error().message);
  return std::move(result.value());
}

inline SimulationResult run_policy(const std::string& name, const std::vector<Job>& jobs,
                                   const Cluster& cluster, double restart_s = 0) {
  const auto policy = make_policy(name);
  REQUIRE(policy != nullptr);
  return run_policy(*policy, jobs, cluster, restart_s);
}

inline std::vector<double> ends(const SimulationResult& result) {
  std::vector<double> times;
  for (const JobState& job : result.jobs) times.push_back(job.ended_s);
  return times;
}

inline double mean_completion_s(const std::vector<Job>& jobs, const SimulationResult& result) {
  double sum = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) sum += result.jobs[i].ended_s - jobs[i].submit_s;
  return sum / static_cast<double>(jobs.size());
}

}  // namespace taut::schedule
