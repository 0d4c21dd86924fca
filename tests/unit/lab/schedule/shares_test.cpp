// Jobs that ask for a share of a device.
#include <algorithm>

#include "lab/schedule/fair_share.hpp"
#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

using Times = std::vector<double>;

Job part_job(double submit_s, double share, double service_s) {
  Job job = test_job(submit_s, 1, service_s);
  job.share = share;
  return job;
}

constexpr const char* kCounting[] = {"fifo", "backfill",       "shortest", "las",
                                     "srtf", "srtf-predicted", "tiresias", "themis"};

TEST_CASE("jobs whose shares fit on a device have it at one time", "[schedule]") {
  const auto jobs = numbered({part_job(0, 0.5, 100), part_job(0, 0.3, 100), part_job(0, 0.2, 100)});
  for (const char* name : kCounting) {
    CAPTURE(name);
    const SimulationResult result = run_policy(name, jobs, test_cluster("1x1"));
    CHECK(ends(result) == Times{100, 100, 100});
    CHECK(result.held_s == Approx(100));
  }
  // Policies that do not count shares give each its own device.
  CHECK(std::ranges::max(ends(run_policy("allox", jobs, test_cluster("1x1")))) > 250);
}

TEST_CASE("a share that does not fit waits, and one that does goes before it", "[schedule]") {
  const auto jobs = numbered({part_job(0, 0.6, 100), part_job(1, 0.5, 100), part_job(2, 0.4, 50)});
  CHECK(ends(run_policy("backfill", jobs, test_cluster("1x1"))) == Times{100, 200, 52});
  CHECK(ends(run_policy("fifo", jobs, test_cluster("1x1"))) == Times{100, 200, 150});
}

TEST_CASE("a job of whole devices waits for those that shares have broken", "[schedule]") {
  // Two devices with 0.4 left of each; the third job needs one, and one in order is behind it.
  const auto jobs = numbered({part_job(0, 0.6, 100), part_job(0, 0.6, 200), part_job(1, 0.2, 300),
                              test_job(2, 1, 10), part_job(3, 0.1, 10)});
  const Cluster cluster = test_cluster("1x2");
  CHECK(ends(run_policy("fifo", jobs, cluster)) == Times{100, 200, 301, 210, 210});
  CHECK(ends(run_policy("backfill", jobs, cluster)) == Times{100, 200, 301, 210, 13});
}

TEST_CASE("a device in four parts is free when the last of them is, not when the first is",
          "[schedule]") {
  // The fifth job needs the device whole, at 40 s. The sixth may have a part from 10 s on.
  const auto jobs = numbered({part_job(0, 0.25, 10), part_job(0, 0.25, 20), part_job(0, 0.25, 30),
                              part_job(0, 0.25, 40), test_job(1, 1, 10), part_job(2, 0.25, 25)});
  for (const char* name : {"backfill", "las"}) {
    CAPTURE(name);
    CHECK(ends(run_policy(name, jobs, test_cluster("1x1"))) == Times{10, 20, 30, 40, 50, 35});
  }
}

TEST_CASE("a later share takes no part of the device that the first job waits for", "[schedule]") {
  // Each of the first two leaves too little for the other. The third needs the first one's device
  // from 50 s on; the fourth fits best next to the first, for longer than that.
  const auto jobs = numbered(
      {part_job(0, 0.8, 50), part_job(0, 0.3, 1000), test_job(1, 1, 10), part_job(2, 0.2, 500)});
  for (const char* name : {"backfill", "las"}) {
    CAPTURE(name);
    CHECK(ends(run_policy(name, jobs, test_cluster("1x2"))) == Times{50, 1000, 60, 550});
  }
}

TEST_CASE("a later share has a part of a device that the first job does not wait for",
          "[schedule]") {
  // As above, but for the fourth: it fits next to the second job alone, however long it takes.
  const auto jobs = numbered(
      {part_job(0, 0.8, 50), part_job(0, 0.3, 1000), test_job(1, 1, 10), part_job(2, 0.4, 500)});
  CHECK(ends(run_policy("backfill", jobs, test_cluster("1x2"))) == Times{50, 1000, 60, 502});
}

TEST_CASE("the time with devices counts by the share", "[schedule]") {
  const auto jobs = numbered({part_job(0, 0.25, 1000), part_job(0, 1, 1000)});
  const SimulationResult result = run_policy("srtf", jobs, test_cluster("1x2"));
  CHECK(result.jobs[0].attained_s == Approx(250));
  CHECK(result.jobs[1].attained_s == Approx(1000));
  CHECK(result.held_s == Approx(1250));
}

TEST_CASE("a fair share of a job is at most the share that it asks for", "[schedule]") {
  const std::vector<Job> jobs = {part_job(0, 0.25, 100), part_job(0, 0.75, 100)};
  CHECK(fair_share_s(jobs, 1)[0] == Approx(100));
  // Both fit on the device.
  CHECK(fair_share_s(jobs, 1)[1] == Approx(100));
}

}  // namespace
}  // namespace taut::schedule
