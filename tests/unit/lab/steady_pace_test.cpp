#include "lab/training/records/steady_pace.hpp"

#include <string>

#include "tests/support/catch.hpp"
#include "tests/unit/lab/tiny_training.hpp"

namespace taut::lab {
namespace {

TimePoint at(double s) {
  return TimePoint(from_seconds(s));
}

double pace_of(int clocks) {
  const TrainingOutcome outcome = run_to_end(
      tiny_training("solver_param { base_lr: 0.1 max_iter: " + std::to_string(clocks) + " }",
                    "compute { clock_ms: 5 }"));
  REQUIRE(outcome.job.state() == pb::DONE);
  return outcome.steady_clocks_per_s;
}

}  // namespace

TEST_CASE("a steady pace is that from the middle clock to the last one", "[lab]") {
  SteadyPace pace(3, 12);  // its middle clock is 5, its last one 11
  CHECK(pace.clocks_per_s() == 0);
  for (int clock = 0; clock < 12; ++clock) {
    pace.begin(0, Clock(clock), at(clock < 5 ? 100.0 * clock : 500 + 2.0 * (clock - 5)));
    pace.begin(1, Clock(clock), at(4.0 * clock));
  }
  pace.begin(2, Clock(5), at(20));  // it does not begin the last one
  CHECK(pace.clocks_per_s() == Approx((0.5 + 0.25) / 2));
  // A later batch of the same clock changes nothing.
  pace.begin(0, Clock(11), at(1e6));
  CHECK(pace.clocks_per_s() == Approx((0.5 + 0.25) / 2));
}

TEST_CASE("one clock has no steady pace", "[lab]") {
  SteadyPace pace(1, 1);
  pace.begin(0, Clock(0), at(1));
  CHECK(pace.clocks_per_s() == 0);
}

TEST_CASE("a training's steady pace is the same however long it is", "[lab]") {
  const double brief = pace_of(8);
  CHECK(brief > 0);
  CHECK(brief <= 200);
  CHECK(brief == Approx(pace_of(100)).epsilon(0.02));
}

}  // namespace taut::lab
