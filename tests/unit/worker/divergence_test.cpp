#include "worker/training/divergence.hpp"

#include <limits>

#include "tests/support/catch.hpp"

namespace taut::worker {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("the loss of a clock whose update is refused is no divergence", "[divergence]") {
  pb::Job job;
  ProgressBoard board;
  SECTION("updates are accepted") {
    CHECK_FALSE(DivergenceRule(job).check_loss(kNoNumber, Clock(3), board).has_value());
    CHECK(board.read().diverged);
  }
  SECTION("updates are refused") {
    job.set_on_bad_update(GENERATE(pb::Job::REFUSE, pb::Job::QUARANTINE, pb::Job::FAIL));
    const DivergenceRule rule(job);
    CHECK(rule.check_loss(kNoNumber, Clock(3), board).has_value());
    CHECK_FALSE(board.read().diverged);
    // What is computed from the parameters alone shows that they are bad.
    CHECK_FALSE(rule.check("the loss of the test", kNoNumber, Clock(3), board).has_value());
    CHECK(board.read().diverged);
  }
  SECTION("a process that trains alone has no servers that refuse") {
    job.set_on_bad_update(pb::Job::REFUSE);
    const DivergenceRule rule = DivergenceRule::without_servers(job);
    CHECK_FALSE(rule.check_loss(kNoNumber, Clock(3), board).has_value());
  }
}

}  // namespace taut::worker
