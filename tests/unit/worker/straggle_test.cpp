#include "worker/training/straggle.hpp"

#include <cmath>
#include <map>
#include <string>

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"

namespace taut::worker {
namespace {

constexpr Duration kCompute{10'000};

pb::Job job_of(const std::string& text) {
  pb::Job job;
  REQUIRE(parse_text(text, "job", job).has_value());
  return job;
}

StragglePlan plan_of(const std::string& text, std::uint32_t slot = 0, std::uint32_t slots = 4) {
  return straggle_plan(job_of(text), {}, slot, slots);
}

/// The clocks below `end` at which the plan waits.
std::string clocks_of(const StragglePlan& plan, std::int64_t end) {
  std::string clocks;
  for (std::int64_t clock = 0; clock < end; ++clock) {
    if (straggle_wait(plan, Clock(clock), kCompute) > Duration::zero()) {
      clocks += std::to_string(clock) + " ";
    }
  }
  return clocks;
}

double mean_wait_ms(const StragglePlan& plan, int clocks) {
  double sum = 0;
  for (int clock = 0; clock < clocks; ++clock) {
    sum += 1000 * seconds(straggle_wait(plan, Clock(clock), kCompute));
  }
  return sum / clocks;
}

}  // namespace

TEST_CASE("without stragglers nothing waits", "[straggle]") {
  CHECK(plan_of("").empty());
  CHECK(clocks_of(plan_of(""), 100).empty());
}

TEST_CASE("a slowdown multiplies the time of a clock", "[straggle]") {
  const StragglePlan plan = plan_of("straggler { slowdown: 3 }");
  CHECK(straggle_wait(plan, Clock(5), kCompute) == 2 * kCompute);
  CHECK(straggle_wait(plan, Clock(5), Duration(0)) == Duration(0));
}

TEST_CASE("a clock time pads short clocks and does not change long ones", "[straggle]") {
  const StragglePlan plan = plan_of("clock_time_ms: 40");
  CHECK(straggle_wait(plan, Clock(0), kCompute) == Duration(30'000));
  CHECK(straggle_wait(plan, Clock(0), Duration(40'000)) == Duration(0));
  CHECK(straggle_wait(plan, Clock(0), Duration(90'000)) == Duration(0));
}

TEST_CASE("a slowdown multiplies the padded clock", "[straggle]") {
  const StragglePlan plan = plan_of("clock_time_ms: 40 straggler { slowdown: 3 }");
  CHECK(kCompute + straggle_wait(plan, Clock(0), kCompute) == Duration(120'000));
}

TEST_CASE("only the named workers are slowed down", "[straggle]") {
  const std::string text = "straggler { worker: 1 worker: 3 delay_ms: 5 }";
  CHECK(clocks_of(plan_of(text, 0), 3).empty());
  CHECK(clocks_of(plan_of(text, 1), 3) == "0 1 2 ");
  CHECK(clocks_of(plan_of(text, 2), 3).empty());
  CHECK(clocks_of(plan_of(text, 3), 3) == "0 1 2 ");
}

TEST_CASE("a burst strikes a stretch of each period", "[straggle]") {
  CHECK(clocks_of(plan_of("straggler { delay_ms: 5 burst { period: 5 length: 2 } }"), 12) ==
        "0 1 5 6 10 11 ");
  CHECK(clocks_of(plan_of("straggler { delay_ms: 5 burst { period: 5 length: 2 offset: 4 } }"),
                  12) == "0 4 5 9 10 ");
}

TEST_CASE("a random burst is anywhere within its period, as a whole", "[straggle]") {
  const StragglePlan plan =
      plan_of("straggler { delay_ms: 5 burst { period: 10 length: 3 random: true } }");
  std::map<int, int> begins;
  for (int period = 0; period < 400; ++period) {
    int first = -1;
    int count = 0;
    for (int place = 0; place < 10; ++place) {
      if (straggle_wait(plan, Clock(10 * period + place), kCompute) == Duration(0)) continue;
      if (first < 0) first = place;
      CHECK(place == first + count);
      ++count;
    }
    CHECK(count == 3);
    ++begins[first];
  }
  CHECK(begins.size() == 8);
}

TEST_CASE("in rotation one worker at a time is slow", "[straggle]") {
  const std::string all = "straggler { delay_ms: 5 rotate: 2 }";
  CHECK(clocks_of(plan_of(all, 0, 3), 12) == "0 1 6 7 ");
  CHECK(clocks_of(plan_of(all, 1, 3), 12) == "2 3 8 9 ");
  CHECK(clocks_of(plan_of(all, 2, 3), 12) == "4 5 10 11 ");
  const std::string some = "straggler { worker: 3 worker: 1 delay_ms: 5 rotate: 1 }";
  CHECK(clocks_of(plan_of(some, 3), 6) == "0 2 4 ");
  CHECK(clocks_of(plan_of(some, 1), 6) == "1 3 5 ");
  CHECK(clocks_of(plan_of(some, 0), 6).empty());
}

TEST_CASE("a rate strikes its share of the clocks", "[straggle]") {
  const StragglePlan plan = plan_of("straggler { delay_ms: 1 rate: 0.1 }");
  // 20,000 draws: the share's standard deviation is 0.002.
  CHECK(mean_wait_ms(plan, 20'000) == Approx(0.1).margin(0.01));
  CHECK(clocks_of(plan_of("straggler { delay_ms: 1 rate: 0 }"), 100).empty());
}

TEST_CASE("every distribution of delays has the requested mean", "[straggle]") {
  for (const std::string name : {"CONSTANT", "UNIFORM", "EXPONENTIAL", "PARETO"}) {
    CAPTURE(name);
    const StragglePlan plan = plan_of("straggler { delay_ms: 20 distribution: " + name + " }");
    // Pareto's standard deviation at shape 2.5 is 0.9 of its mean: 0.13 ms over 20,000 draws.
    CHECK(mean_wait_ms(plan, 20'000) == Approx(20).margin(0.6));
  }
}

TEST_CASE("an exponential delay exceeds its mean once in e", "[straggle]") {
  const StragglePlan plan = plan_of("straggler { delay_ms: 20 distribution: EXPONENTIAL }");
  int above = 0;
  for (int clock = 0; clock < 20'000; ++clock) {
    above += straggle_wait(plan, Clock(clock), kCompute) > Duration(20'000) ? 1 : 0;
  }
  CHECK(above / 20'000.0 == Approx(std::exp(-1.0)).margin(0.015));
}

TEST_CASE("waits follow only from seed, worker and clock, and differ between them", "[straggle]") {
  const std::string text = "straggler { delay_ms: 9 distribution: UNIFORM } seed: ";
  const auto wait = [&](const std::string& seed, std::uint32_t slot, int clock) {
    return straggle_wait(plan_of(text + seed, slot), Clock(clock), kCompute);
  };
  CHECK(wait("1", 0, 7) == wait("1", 0, 7));
  CHECK(wait("1", 0, 7) != wait("2", 0, 7));
  CHECK(wait("1", 0, 7) != wait("1", 1, 7));
  CHECK(wait("1", 0, 7) != wait("1", 0, 8));
}

TEST_CASE("a worker's own config adds stragglers and takes the place of times", "[straggle]") {
  pb::WorkerConfig settings;
  REQUIRE(parse_text("straggler { delay_ms: 2 } slowdown_ms: 8 clock_time_ms: 0 "
                     "network { delay_ms: 3 }",
                     "worker", settings)
              .has_value());
  const pb::Job job = job_of("straggler { delay_ms: 5 } clock_time_ms: 100 network { loss: 0.5 }");
  const StragglePlan plan = straggle_plan(job, settings, 0, 1);
  CHECK(plan.stragglers.size() == 3);
  const Duration wait = straggle_wait(plan, Clock(0), kCompute);
  CHECK(wait >= Duration(7'000));
  CHECK(wait <= Duration(15'000));
  CHECK(link_faults(job, settings).delay == Duration(3'000));
  CHECK(link_faults(job, settings).loss == 0);
  CHECK(link_faults(job, {}).loss == 0.5);
  CHECK(straggle_plan(job, {}, 0, 1).clock_time == Duration(100'000));
}

}  // namespace taut::worker
