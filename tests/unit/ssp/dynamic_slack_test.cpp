#include "common/ssp/policies/dynamic_slack.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"

using namespace taut;

namespace {

TimePoint at(std::int64_t ms) {
  return TimePoint(Duration(ms * 1000));
}

PushTimes times(std::int64_t latest_ms, std::int64_t interval_ms) {
  return {at(latest_ms), Duration(interval_ms * 1000)};
}

/// Algorithm 2 as the paper writes it: both workers' next pushes in two lists, and the pair that
/// is closest together.
std::int64_t reference(PushTimes fastest, PushTimes slowest, std::int64_t max_extra) {
  std::vector<double> fast;
  std::vector<double> slow;
  for (std::int64_t i = 0; i <= max_extra; ++i) {
    fast.push_back(seconds(fastest.latest.since_origin()) +
                   static_cast<double>(i) * seconds(fastest.interval));
    slow.push_back(seconds(slowest.latest.since_origin()) +
                   static_cast<double>(i + 1) * seconds(slowest.interval));
  }
  std::size_t best = 0;
  double gap = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < fast.size(); ++r) {
    for (const double push : slow) {
      if (std::abs(push - fast[r]) < gap - 1e-9) {
        gap = std::abs(push - fast[r]);
        best = r;
      }
    }
  }
  return static_cast<std::int64_t>(best);
}

Membership members(const std::vector<std::uint32_t>& workers) {
  std::vector<Member> all;
  all.reserve(workers.size());
  for (const std::uint32_t worker : workers) {
    all.push_back({WorkerId(worker), Incarnation(worker + 1), Clock(0)});
  }
  return {EpochId(1), std::move(all), {{Clock(0), ApplyMode::kOnArrival}}};
}

/// Worker 0 pushes every 10 ms, worker 1 every 35 ms.
class TwoSpeeds {
 public:
  explicit TwoSpeeds(SlackRange range) : slack(range) { slack.set_members(members({0, 1})); }
  void fast() {
    time_ += 10;
    slack.note_push(WorkerId(0), Clock(clock_++), at(time_));
  }
  Slack read() { return slack.slack_of_read(WorkerId(0), Clock(clock_), Slack(0)); }

  DynamicSlack slack;

 private:
  std::int64_t time_ = 0;
  std::int64_t clock_ = 0;
};

}  // namespace

TEST_CASE(
    "the fastest worker continues for the clocks that bring it nearest to a push of the slowest",
    "[dynamic-slack]") {
  // The slowest pushes at 130 and 160; after three more clocks the fastest would be at 130.
  CHECK(extra_clocks(times(100, 10), times(100, 30), 8) == 3);
  // A push that is due now is waited for at once.
  CHECK(extra_clocks(times(129, 10), times(100, 30), 8) == 0);
  CHECK(extra_clocks(times(100, 10), times(100, 30), 1) == 1);
  CHECK(extra_clocks(times(100, 10), times(100, 30), 0) == 0);
}

TEST_CASE("the number of extra clocks is that of the paper's two lists", "[dynamic-slack]") {
  const std::uint64_t seed = 5;
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const auto draw = [&](std::uint64_t max_extra) {
      return static_cast<std::int64_t>(random() % max_extra);
    };
    const PushTimes fastest = times(1000 + draw(200), 1 + draw(40));
    const PushTimes slowest = times(900 + draw(300), 1 + draw(200));
    const std::int64_t max_extra = draw(12);
    CAPTURE(round, max_extra, fastest.latest.since_origin().count(), fastest.interval.count(),
            slowest.latest.since_origin().count(), slowest.interval.count());
    REQUIRE(extra_clocks(fastest, slowest, max_extra) == reference(fastest, slowest, max_extra));
  }
}

TEST_CASE("two pushes at the same time are handled", "[dynamic-slack]") {
  CHECK(extra_clocks(times(100, 0), times(100, 0), 5) == 0);
  CHECK(extra_clocks(times(100, 10), times(80, 0), 5) == 0);
}

TEST_CASE(
    "within the smallest slack nothing is granted, and beyond it the fastest gets extra clocks",
    "[dynamic-slack]") {
  TwoSpeeds two({Slack(1), Slack(6)});
  two.slack.note_push(WorkerId(1), Clock(0), at(0));
  two.slack.note_push(WorkerId(1), Clock(1), at(35));
  for (int i = 0; i < 3; ++i) two.fast();
  CHECK(two.read() == Slack(1));  // clock 3 next to 2
  two.fast();                     // at 40; the slowest is expected at 70
  // Three extra clocks, to 70: reads at clocks 4, 5 and 6 are let through.
  CHECK(two.read() == Slack(4));
  CHECK(two.slack.moving() == Slack(4));
  two.fast();
  two.fast();
  CHECK(two.read() == Slack(4));
  two.fast();
  // At 70 they are used up, and the slowest's push is due now.
  CHECK(two.read() == Slack(1));
  CHECK(two.slack.moving() == Slack(1));
}

TEST_CASE("no extra clocks lead beyond the range", "[dynamic-slack]") {
  TwoSpeeds two({Slack(1), Slack(3)});
  two.slack.note_push(WorkerId(1), Clock(0), at(0));
  two.slack.note_push(WorkerId(1), Clock(1), at(1000));
  for (int i = 0; i < 20; ++i) {
    two.fast();
    CHECK(two.read() <= Slack(3));
    CHECK(two.read() >= Slack(1));
  }
  CHECK(two.read() == Slack(1));
}

TEST_CASE("only the fastest worker is given extra clocks, and only once its pace is known",
          "[dynamic-slack]") {
  DynamicSlack slack({Slack(1), Slack(8)});
  slack.set_members(members({0, 1, 2}));
  for (std::int64_t clock = 0; clock < 5; ++clock) {
    slack.note_push(WorkerId(0), Clock(clock), at(10 * clock));
    if (clock < 4) slack.note_push(WorkerId(1), Clock(clock), at(12 * clock));
  }
  // Worker 2 has pushed nothing: its pace is unknown.
  CHECK(slack.slack_of_read(WorkerId(0), Clock(5), Slack(0)) == Slack(1));
  slack.note_push(WorkerId(2), Clock(0), at(0));
  slack.note_push(WorkerId(2), Clock(1), at(40));
  CHECK(slack.slack_of_read(WorkerId(1), Clock(4), Slack(0)) == Slack(1));
  CHECK(slack.slack_of_read(WorkerId(0), Clock(5), Slack(0)) > Slack(1));
}

TEST_CASE("a worker that was lost is not waited for", "[dynamic-slack]") {
  const auto slack_after = [](bool lost) {
    DynamicSlack slack({Slack(1), Slack(8)});
    slack.set_members(members({0, 1, 2}));
    for (std::int64_t clock = 0; clock < 6; ++clock) {
      slack.note_push(WorkerId(0), Clock(clock), at(10 * clock));
      if (clock < 5) slack.note_push(WorkerId(1), Clock(clock), at(10 * clock));
      if (clock < 2) slack.note_push(WorkerId(2), Clock(clock), at(20 * clock));
    }
    Member last{WorkerId(2), Incarnation(3), Clock(0)};
    last.fenced = lost;
    slack.set_members(
        {EpochId(2),
         {{WorkerId(0), Incarnation(1), Clock(0)}, {WorkerId(1), Incarnation(2), Clock(0)}, last},
         {{Clock(0), ApplyMode::kOnArrival}}});
    return slack.slack_of_read(WorkerId(0), Clock(6), Slack(0));
  };
  CHECK(slack_after(false) > Slack(1));
  CHECK(slack_after(true) == Slack(1));
}

TEST_CASE("the same push of another slice does not change a worker's measured pace",
          "[dynamic-slack]") {
  TwoSpeeds two({Slack(1), Slack(6)});
  two.slack.note_push(WorkerId(1), Clock(0), at(0));
  two.slack.note_push(WorkerId(1), Clock(1), at(35));
  two.slack.note_push(WorkerId(1), Clock(1), at(36));
  for (int i = 0; i < 4; ++i) two.fast();
  CHECK(two.read() == Slack(4));
}
