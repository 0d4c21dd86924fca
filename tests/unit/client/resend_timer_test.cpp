#include "worker/client/resend_timer.hpp"

#include "tests/support/catch.hpp"

namespace taut {
namespace {

constexpr Duration kMs{1'000};

ResendTimer measured_timer() {
  ResendTimer timer(ResendPolicy{1000 * kMs, 200 * kMs, 10'000 * kMs});
  for (int i = 0; i < 50; ++i) timer.measured(100 * kMs);
  return timer;
}

}  // namespace

TEST_CASE("each attempt waits twice as long as the one before it", "[client]") {
  const ResendTimer timer = measured_timer();
  CHECK(timer.timeout(1) == 200 * kMs);
  CHECK(timer.timeout(2) == 400 * kMs);
  CHECK(timer.timeout(3) == 800 * kMs);
  CHECK(timer.timeout(20) == 10'000 * kMs);
}

TEST_CASE("a read waits twice as long as an update, and at most four times", "[client]") {
  ResendTimer timer = measured_timer();
  CHECK(timer.read_timeout(1) == 400 * kMs);
  CHECK(timer.read_timeout(2) == 800 * kMs);
  CHECK(timer.read_timeout(3) == 800 * kMs);
  CHECK(timer.read_timeout(20) == 800 * kMs);
  // Late updates have doubled both.
  timer.expired(1);
  CHECK(timer.read_timeout(1) == timer.timeout(1));
  timer.expired(3);
  CHECK(timer.read_timeout(1) == 1600 * kMs);
}

TEST_CASE("what is sent after a late answer waits longer, until a round trip is measured",
          "[client]") {
  ResendTimer timer = measured_timer();
  timer.expired(1);
  CHECK(timer.timeout(1) == 400 * kMs);
  timer.expired(3);
  timer.expired(2);
  CHECK(timer.timeout(1) == 1600 * kMs);
  CHECK(timer.timeout(5) == 3200 * kMs);
  timer.measured(1500 * kMs);
  // Its mean and deviation have grown; the doublings are over.
  const Duration grown = timer.timeout(1);
  CHECK(grown > 1500 * kMs);
  CHECK(timer.timeout(2) == 2 * grown);
}

}  // namespace taut
