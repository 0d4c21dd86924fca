#pragma once

#include <cstdint>

#include "lab/simulated_run.hpp"
#include "tests/support/catch.hpp"

namespace taut::test {

inline sim::LinkFaults rough() {
  sim::LinkFaults faults;
  faults.drop = 0.05;
  faults.duplicate = 0.05;
  faults.reorder = true;
  faults.delay_min = Duration(50);
  faults.delay_max = Duration(3000);
  return faults;
}

/// Servers whose loss takes a while to be noticed, next to clocks of 20 ms.
inline sim::Plan replicated(std::uint32_t servers, std::uint32_t interval) {
  sim::Plan plan;
  plan.servers = servers;
  plan.replication_interval = interval;
  plan.heartbeat_limit = Duration(400'000);
  plan.heartbeat_interval = Duration(40'000);
  plan.compute_min = Duration(10'000);
  plan.compute_max = Duration(30'000);
  return plan;
}

inline sim::Outcome run_and_check(const sim::Plan& plan) {
  sim::Outcome outcome = sim::run(plan);
  INFO("seed " << plan.seed << " slack " << plan.job.slack.to_string() << " " << outcome.state
               << ": " << outcome.message);
  CHECK(outcome.done);
  if (outcome.broken) FAIL_CHECK(outcome.broken->rule << ": " << outcome.broken->what);
  return outcome;
}

}  // namespace taut::test
