// Workloads drawn from published distributions.
#include "lab/schedule/workload.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

namespace taut::schedule {
namespace {

double part(const std::vector<Job>& jobs, auto matches) {
  return static_cast<double>(std::ranges::count_if(jobs, matches)) /
         static_cast<double>(jobs.size());
}

TEST_CASE("a workload of Gavel has the published shares", "[schedule]") {
  const Trace trace = make_workload({.distribution = "gavel", .jobs = 20000});
  const auto& jobs = trace.jobs;
  REQUIRE(jobs.size() == 20000);
  CHECK(part(jobs, [](const Job& j) { return j.workers == 1; }) == Approx(0.7).margin(0.015));
  CHECK(part(jobs, [](const Job& j) { return j.workers == 8; }) == Approx(0.05).margin(0.01));
  CHECK(part(jobs, [](const Job& j) { return j.service_s < 60e3; }) == Approx(0.8).margin(0.015));
  for (const Job& job : jobs) {
    CHECK(job.service_s >= 60 * 31.6);
    CHECK(job.service_s <= 60 * 10000.0);
  }
}

TEST_CASE("a workload of Pollux has the published classes", "[schedule]") {
  const Trace trace = make_workload({.distribution = "pollux", .jobs = 20000});
  const auto hours = [](const Job& job) { return job.service_s * job.workers / 3600; };
  CHECK(part(trace.jobs, [&](const Job& j) { return hours(j) <= 1; }) ==
        Approx(0.72).margin(0.015));
  CHECK(part(trace.jobs, [&](const Job& j) { return hours(j) > 100; }) ==
        Approx(0.02).margin(0.005));
}

TEST_CASE("jobs arrive at the rate that gives the load, and the same for a seed", "[schedule]") {
  const WorkloadRequest request{
      .distribution = "gavel", .jobs = 20000, .load = 0.5, .devices = 32, .max_workers = 4};
  const Trace trace = make_workload(request);
  double asked = 0;
  for (const Job& job : trace.jobs) asked += job.workers * job.service_s;
  CHECK(asked / (32 * trace.jobs.back().submit_s) == Approx(0.5).epsilon(0.03));
  CHECK(std::ranges::is_sorted(trace.jobs, {}, &Job::submit_s));
  CHECK(std::ranges::max(trace.jobs, {}, &Job::workers).workers == 4);
  const Trace again = make_workload(request);
  CHECK(std::ranges::equal(trace.jobs, again.jobs, {}, &Job::submit_s, &Job::submit_s));
  WorkloadRequest other = request;
  other.seed = 2;
  CHECK_FALSE(std::ranges::equal(trace.jobs, make_workload(other).jobs, {}, &Job::submit_s,
                                 &Job::submit_s));
}

}  // namespace
}  // namespace taut::schedule
