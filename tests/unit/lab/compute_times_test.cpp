#include "lab/training/costs/compute_times.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "worker/model/graph.hpp"

using Catch::Matchers::Contains;

namespace taut::lab {
namespace {

using Pass = worker::Pace::Pass;

model::Graph two_layers() {
  model::Graph graph;
  graph.name = "two";
  for (const char* name : {"first", "second"}) {
    model::Node& node = graph.nodes.emplace_back();
    node.definition.set_name(name);
  }
  return graph;
}

Result<ComputeTimes> times_of(const std::string& text, std::uint64_t seed = 1) {
  pb::LabCompute compute;
  REQUIRE(parse_text(text, "compute", compute).has_value());
  return ComputeTimes::make(compute, two_layers(), 64, seed);
}

/// Of many clocks of one worker.
double mean_factor(const ComputeTimes& times) {
  constexpr int kClocks = 40'000;
  double sum = 0;
  for (int clock = 0; clock < kClocks; ++clock) sum += times.factor(3, Clock(clock));
  return sum / kClocks;
}

}  // namespace

TEST_CASE("a layer takes what is said of it, for its share of the batch", "[lab]") {
  const auto times =
      times_of("batch: 32 layer { name: \"second\" forward_us: 100 backward_us: 250 }");
  REQUIRE(times.has_value());
  CHECK(times.value().layer(Pass::kForward, 1, 0, Clock(0)) == 200);
  CHECK(times.value().layer(Pass::kBackward, 1, 0, Clock(0)) == 500);
  CHECK(times.value().layer(Pass::kForward, 0, 0, Clock(0)) == 0);
  CHECK(times.value().test(16) == 50);
  const auto free_tests = times_of("tests: false layer { name: \"second\" forward_us: 100 }");
  CHECK(free_tests.value().test(16) == 0);
}

TEST_CASE("a layer that the net does not have, and no times at all, are refused", "[lab]") {
  const auto wrong = times_of("layer { name: \"secnd\" }");
  REQUIRE_FALSE(wrong.has_value());
  CHECK_THAT(wrong.error().message,
             Contains("the net \"two\" has no layer \"secnd\"; did you mean \"second\"?"));
  const auto none = times_of("");
  REQUIRE_FALSE(none.has_value());
  CHECK_THAT(none.error().message, Contains("add compute { clock_ms: 20 }"));
}

TEST_CASE("whatever the spread, clocks take their mean on average", "[lab]") {
  CHECK(mean_factor(times_of("clock_ms: 1 spread: LOGNORMAL deviation: 0.5").value()) ==
        Approx(1).epsilon(0.02));
  CHECK(mean_factor(times_of("clock_ms: 1 spread: PARETO shape: 3").value()) ==
        Approx(1).epsilon(0.02));
  CHECK(mean_factor(times_of("clock_ms: 1 spread: BURSTS burst_clocks: 4").value()) ==
        Approx(1).epsilon(0.05));
}

TEST_CASE("a clock's time is a function of seed, worker and clock", "[lab]") {
  const auto times = times_of("clock_ms: 1 spread: LOGNORMAL").value();
  const auto again = times_of("clock_ms: 1 spread: LOGNORMAL").value();
  const auto other = times_of("clock_ms: 1 spread: LOGNORMAL", 2).value();
  const double factor = times.factor(1, Clock(7));
  CHECK(again.factor(1, Clock(7)) == factor);
  CHECK(times.factor(2, Clock(7)) != factor);
  CHECK(times.factor(1, Clock(8)) != factor);
  CHECK(other.factor(1, Clock(7)) != factor);
}

TEST_CASE("a burst lasts its clocks", "[lab]") {
  const auto times =
      times_of("clock_ms: 1 spread: BURSTS burst_clocks: 10 burst_factor: 5 burst_share: 0.3")
          .value();
  for (int block = 0; block < 50; ++block) {
    const double first = times.factor(0, Clock(10 * block));
    for (int i = 1; i < 10; ++i) CHECK(times.factor(0, Clock(10 * block + i)) == first);
  }
}

TEST_CASE("a trace of times passes in its order, in a circle, from a place of each worker's own",
          "[lab]") {
  const auto parsed = times_of("spread: TRACE time_ms: 10 time_ms: 20 time_ms: 60");
  REQUIRE(parsed.has_value());
  const ComputeTimes& times = parsed.value();
  CHECK(times.whole_clock() == Approx(30'000));
  const std::vector<double> trace{1.0 / 3, 2.0 / 3, 2};
  std::set<std::size_t> places;
  for (std::uint32_t worker = 0; worker < 16; ++worker) {
    const auto first = std::ranges::find_if(trace, [&](double factor) {
      return std::abs(factor - times.factor(worker, Clock(0))) < 1e-9;
    });
    REQUIRE(first != trace.end());
    const auto place = static_cast<std::size_t>(first - trace.begin());
    places.insert(place);
    for (std::size_t clock = 0; clock < 7; ++clock) {
      CHECK(times.factor(worker, Clock(static_cast<std::int64_t>(clock))) ==
            Approx(trace[(place + clock) % 3]));
    }
  }
  CHECK(places.size() == 3);
  const auto scaled = times_of("clock_ms: 6 spread: TRACE time_ms: 10 time_ms: 30");
  CHECK(scaled.value().whole_clock() == Approx(6'000));
}

}  // namespace taut::lab
