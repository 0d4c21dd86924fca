#include <cmath>

#include "cli/sweep/comparison.hpp"
#include "cli/sweep/curve.hpp"
#include "cli/sweep/prepare_run.hpp"
#include "cli/sweep/run_result.hpp"
#include "cli/sweep/statistics.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_folder.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {
namespace {

Spread spread(std::vector<double> values) {
  return spread_of(values);
}

/// A run whose accuracy rises from 0 to 1 in twice the given seconds.
RunResult reaching_half_at(double seconds) {
  RunResult run;
  run.accuracy_by_time = {{0, 2 * seconds}, {0, 1}};
  run.accuracy_by_clock = {{0, 100}, {0, 1}};
  run.best_accuracy = 1;
  return run;
}

std::vector<PointFigures> points_with(const std::vector<std::vector<double>>& seconds) {
  SweepPlan plan;
  std::vector<SweepOutcome> outcomes;
  const std::vector<std::string> slacks = {"0", "1", "async"};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    plan.points.push_back({slacks[i], 2, "", {}});
    for (const double one : seconds[i]) {
      SweepOutcome outcome;
      outcome.run.point = i;
      outcome.result = reaching_half_at(one);
      outcomes.push_back(outcome);
    }
  }
  return figures_of(plan, outcomes, 0.5);
}

}  // namespace

TEST_CASE("mean and spread are those of the sample", "[sweep]") {
  CHECK(spread({2, 4, 6}).mean == 4);
  CHECK(spread({2, 4, 6}).deviation == 2);
  CHECK(spread({3}).deviation == 0);
  CHECK(spread({}).count == 0);
}

TEST_CASE("Welch's test gives the p-values of the t distribution", "[sweep]") {
  // By numerical integration of the density.
  CHECK(welch_p(spread({10, 11, 12}), spread({14, 15, 17})) == Approx(0.0198551).epsilon(1e-4));
  CHECK(welch_p(spread({40.1, 41.3, 39.8}), spread({42.0, 47.5, 44.1})) ==
        Approx(0.1138169).epsilon(1e-4));
  CHECK(welch_p(spread({1}), spread({5, 6})) == 1);
  CHECK(welch_p(spread({1, 1}), spread({2, 2})) == 0);
  CHECK(welch_p(spread({1, 1}), spread({1, 1})) == 1);
}

TEST_CASE("Holm's correction raises the lowest p-value most and keeps the order", "[sweep]") {
  const std::vector<double> p = {0.01, 0.04, 0.03};
  const std::vector<double> adjusted = holm_adjusted(p);
  CHECK(adjusted[0] == Approx(0.03));
  CHECK(adjusted[2] == Approx(0.06));
  CHECK(adjusted[1] == Approx(0.06));
  CHECK(holm_adjusted(std::vector<double>{0.9, 0.8})[1] == 1);
}

TEST_CASE("a curve is read on the lines between its points", "[sweep]") {
  const Curve curve{{1, 3, 4}, {10, 20, 0}};
  CHECK(value_at(curve, 2).value() == Approx(15));
  CHECK(value_at(curve, 3).value() == 20);
  CHECK_FALSE(value_at(curve, 0.9).has_value());
  CHECK_FALSE(value_at(curve, 4.1).has_value());
  CHECK(first_reaching(curve, 18).value() == Approx(2.6));
  CHECK(first_reaching(curve, 5).value() == 1);
  CHECK_FALSE(first_reaching(curve, 21).has_value());
}

TEST_CASE("scattered points are averaged in equal parts, and empty parts are omitted", "[sweep]") {
  const std::vector<double> x = {0.5, 1.5, 1.9, 9.9, 10};
  const std::vector<double> y = {1, 2, 4, 8, 10};
  const Curve curve = binned(x, y, 10, 10);
  CHECK(curve.x == std::vector<double>{0.5, 1.5, 9.5});
  CHECK(curve.y == std::vector<double>{1, 3, 9});
}

TEST_CASE("a band covers only where every run has a value", "[sweep]") {
  const std::vector<Curve> curves = {{{0, 10}, {0, 10}}, {{0, 5}, {2, 7}}};
  const Band band = band_of(curves, std::vector<double>{0, 4, 8});
  CHECK(band.x == std::vector<double>{0, 4});
  CHECK(band.mean == std::vector<double>{1, 5});
  CHECK(band.deviation[0] == Approx(std::sqrt(2.0)));
}

TEST_CASE("the target is given, or the accuracy that every run reached, rounded down", "[sweep]") {
  std::vector<SweepOutcome> outcomes(3);
  outcomes[0].result = RunResult{};
  outcomes[0].result->best_accuracy = 0.8799;
  outcomes[1].result = RunResult{};
  outcomes[1].result->best_accuracy = 0.91;
  CHECK(target_of(std::nullopt, outcomes) == Approx(0.875));
  CHECK(target_of(0.9, outcomes) == 0.9);
}

TEST_CASE("a lead beyond the noise is called so, with the test's p-values", "[sweep]") {
  const std::string text = verdict(points_with({{100, 101, 99}, {50, 51, 49}, {70, 71, 69}}), 0.5);
  CHECK_THAT(text, Contains("Slack 1 reached 50.0 % test accuracy soonest, in 50.0 s on average "
                            "over 3 seeds, 20.0 s (28.6 %) before async"));
  CHECK_THAT(text, Contains("that lead is beyond the noise"));
  CHECK_THAT(text, Contains("BSP (50.0 s later"));
}

TEST_CASE("a lead within the noise is called so", "[sweep]") {
  const std::string text = verdict(points_with({{50, 60, 40}, {52, 61, 44}}), 0.5);
  CHECK_THAT(text, Contains("BSP reached") && Contains("within the noise"));
  CHECK_THAT(verdict(points_with({{50}, {60}}), 0.5),
             Contains("one seed tells nothing about the noise"));
}

TEST_CASE("a bound that does not always reach the target is named and not compared", "[sweep]") {
  auto points = points_with({{50, 60}, {10, 10}});
  points[1].seconds_to_target.pop_back();
  CHECK_THAT(verdict(points, 0.5),
             Contains("(slack 1 did not always reach it)") && Contains("no other bound did"));
  points[0].seconds_to_target.clear();
  CHECK_THAT(verdict(points, 0.5), Contains("No bound reached 50.0 %"));
  for (PointFigures& point : points) point.runs.clear();
  CHECK(verdict(points, 0) == "No run has finished, so there is nothing to compare.");
}

TEST_CASE("a run is read from its workers' metrics and its summary", "[sweep]") {
  const test::TempFolder folder;
  const std::string header =
      "clock,unix_time_s,wall_s,loss,images,images_per_second,compute_s,wait_s,reads,"
      "staleness_mean,staleness_max,test_accuracy,test_loss\n";
  folder.write("job1-worker0/metrics.csv", header +
                                               "0,101,1,2.0,64,64,0.75,0.25,8,0,0,,\n"
                                               "1,102,2,,,,,,,,,0.5,1.1\n"
                                               "1,103,3,1.0,64,64,0.75,0.25,8,0,0,,\n"
                                               "2,104,4,,,,,,,,,0.75,0.9\n"
                                               "2,104.5,4.5,,,,,,,,,,0.9\n"
                                               "2,105,5,1.0,6");
  folder.write("job1-worker1/metrics.csv", header +
                                               "0,102,1,3.0,64,64,1,0,8,0,0,,\n"
                                               "1,104,3,1.0,64,64,1,0,8,0,0,,\n");
  folder.write("summary.json",
               "{\"staleness\":[{\"staleness\":0,\"reads\":3},"
               "{\"staleness\":2,\"reads\":1}]}");
  const auto read = read_run(folder.path());
  INFO((read ? std::string() : read.error().message));
  REQUIRE(read.has_value());
  const RunResult& run = read.value();
  CHECK(run.wall_s == 4);
  CHECK(run.clocks == 2);
  CHECK(run.images_per_second == Approx(64));
  CHECK(run.wait_share == Approx(0.125));
  CHECK(run.accuracy_by_time.x == std::vector<double>{2, 4});
  CHECK(run.accuracy_by_clock.x == std::vector<double>{1, 2});
  CHECK(run.final_accuracy == 0.75);
  CHECK(run.mean_staleness == 0.5);
  CHECK(run.staleness.at(2) == 1);
}

TEST_CASE("a folder without a complete run reports what is missing", "[sweep]") {
  const test::TempFolder folder;
  const auto message = [&] { return read_run(folder.path()).error().message; };
  CHECK_THAT(message(), Contains("summary.json"));
  folder.write("summary.json", "{}");
  CHECK_THAT(message(), Contains("is no run's summary"));
  folder.write("summary.json", "{\"staleness\":[]}");
  CHECK_THAT(message(), Contains("no worker left a metrics.csv"));
  folder.write("job1-worker0/metrics.csv", "clock,loss\n1,2\n");
  CHECK_THAT(message(), Contains("has no column \"unix_time_s\""));
  folder.write("job1-worker0/metrics.csv",
               "clock,unix_time_s,wall_s,loss,images,compute_s,wait_s,test_accuracy\n"
               "0,1,1,1,1,1,1,\n");
  CHECK_THAT(message(), Contains("no test accuracy was recorded"));
  // A test of a net without an Accuracy is no line of the training.
  folder.write("job1-worker0/metrics.csv",
               "clock,unix_time_s,wall_s,loss,images,compute_s,wait_s,test_accuracy\n"
               "0,1,1,1,1,1,1,\n"
               "1,2,2,,,,,\n");
  CHECK_THAT(message(), Contains("no test accuracy was recorded"));
}

TEST_CASE("why a run failed is taken from its log", "[sweep]") {
  const test::TempFolder folder;
  const auto log =
      folder.write("train.log",
                   "fine\ntautline train: worker0 exited with status 1; the end of its "
                   "log:\n  | 12:00 info starting\n  | 12:01 error the loss is nan\n");
  CHECK(failure_in(log) ==
        "worker0 exited with status 1; the end of its log: 12:01 error the loss is nan");
  CHECK_THAT(failure_in(folder.path() / "none"), Contains("no log"));
}

}  // namespace taut::cli
