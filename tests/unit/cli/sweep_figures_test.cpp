#include <algorithm>
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

const SweepTarget kHalf{{}, 0.5, true};

/// A run whose accuracy rises from 0 to 1 in twice the given seconds.
RunResult reaching_half_at(double seconds, int tests) {
  RunResult run;
  for (int i = 0; i < tests; ++i) {
    const double share = static_cast<double>(i) / (tests - 1);
    run.test_by_time.add(2 * seconds * share, share);
    run.test_by_clock.add(100 * share, share);
  }
  run.best_value = 1;
  return run;
}

/// seconds  to the target: by bound, then by seed
std::vector<PointFigures> points_with(const std::vector<std::vector<double>>& seconds,
                                      int tests = 21) {
  SweepPlan plan;
  std::vector<SweepOutcome> outcomes;
  const std::vector<std::string> slacks = {"0", "1", "async"};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    plan.points.push_back({slacks[i], 2, "", {}});
    for (std::size_t seed = 0; seed < seconds[i].size(); ++seed) {
      SweepOutcome outcome;
      outcome.run.point = i;
      outcome.run.seed = seed + 1;
      outcome.result = reaching_half_at(seconds[i][seed], tests);
      outcomes.push_back(outcome);
    }
  }
  return figures_of(plan, outcomes, kHalf);
}

}  // namespace

TEST_CASE("mean and spread are those of the sample", "[sweep]") {
  CHECK(spread({2, 4, 6}).mean == 4);
  CHECK(spread({2, 4, 6}).deviation == 2);
  CHECK(spread({3}).deviation == 0);
  CHECK(spread({}).count == 0);
}

TEST_CASE("the sign-flip test counts the signs that are as far from 0", "[sweep]") {
  using Differences = std::vector<double>;
  // Only two of the 64 choices of signs, those with equal signs, give a sum of 21.
  CHECK(sign_flip_p(Differences{1, 2, 3, 4, 5, 6}) == 2.0 / 64);
  CHECK(sign_flip_p(Differences{-1, -2, -3, -4, -5, -6}) == 2.0 / 64);
  // Sums of 1, 2 and -3, which is 0: every choice is as far.
  CHECK(sign_flip_p(Differences{1, 2, -3}) == 1);
  // 8 + 4 + 2 - 1 = 13 is reached or passed by 15 and 13, and by their opposites.
  CHECK(sign_flip_p(Differences{8, 4, 2, -1}) == 4.0 / 16);
  CHECK(sign_flip_p(Differences{0, 0}) == 1);
  CHECK(sign_flip_p(Differences{}) == 1);
  CHECK(lowest_sign_flip_p(6) == 2.0 / 64);
  CHECK(lowest_sign_flip_p(0) == 1);
  // Rounding does not separate equal sums.
  CHECK(sign_flip_p(Differences{0.1, 0.2, 0.3, -0.3}) == sign_flip_p(Differences{1, 2, 3, -3}));
}

TEST_CASE("beyond twenty differences the sign-flip test is the normal distribution's", "[sweep]") {
  const std::vector<double> up(25, 1.0);
  CHECK(sign_flip_p(up) == Approx(5.733e-7).epsilon(1e-3));  // 2 (1 - Phi(5))
  std::vector<double> mixed(24, 1.0);
  std::fill_n(mixed.begin(), 12, -1.0);
  CHECK(sign_flip_p(mixed) == Approx(1));
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

TEST_CASE("the target is given, or what every run reached, rounded toward worse", "[sweep]") {
  std::vector<SweepOutcome> outcomes(3);
  outcomes[0].result = RunResult{};
  outcomes[0].result->best_value = 0.8799;
  outcomes[1].result = RunResult{};
  outcomes[1].result->best_value = 0.91;
  CHECK(target_of({}, std::nullopt, outcomes).value == Approx(0.875));
  CHECK_FALSE(target_of({}, std::nullopt, outcomes).is_fixed);
  CHECK(target_of({}, 0.9, outcomes).value == 0.9);
  CHECK(target_of({}, 0.9, outcomes).is_fixed);
  const SweepMetric loss{"loss", false, false, 0};
  outcomes[0].result->best_value = 0.2314;
  outcomes[1].result->best_value = 0.19;
  CHECK(target_of(loss, std::nullopt, outcomes).value == Approx(0.24));
  outcomes[0].result->best_value = 0.24;
  CHECK(target_of(loss, std::nullopt, outcomes).value == Approx(0.24));
}

TEST_CASE("a lead beyond the noise is called so, with the test's p-values", "[sweep]") {
  std::vector<std::vector<double>> seconds(3);
  for (int seed = 0; seed < 8; ++seed) {
    seconds[0].push_back(100 + seed);
    seconds[1].push_back(50 + seed);
    seconds[2].push_back(70 + seed);
  }
  const SweepVerdict found = verdict(points_with(seconds), kHalf);
  CHECK(found.is_given);
  CHECK_THAT(found.text, Contains("Slack 1 reached 50.0 % test accuracy soonest, in 53.5 s on "
                                  "average over 8 seeds, 20.0 s (27.2 %) before async"));
  // The lowest p-value of eight pairs, 2 / 256, times the three pairs of bounds.
  CHECK_THAT(found.text, Contains("that lead is beyond the noise (p = 0.023)"));
  CHECK_THAT(found.text, Contains("BSP (50.0 s later, p = 0.023)"));
  REQUIRE(found.tests.size() == 2);
  CHECK(found.tests[0].seeds == 8);
  CHECK(found.tests[0].p == Approx(3 * 2.0 / 256));
}

TEST_CASE("a lead within the noise is called so", "[sweep]") {
  const SweepVerdict found =
      verdict(points_with({{50, 60, 40, 52, 53, 47}, {52, 61, 44, 50, 49, 51}}), kHalf);
  CHECK(found.is_given);
  CHECK_THAT(found.text, Contains("BSP reached") && Contains("within the noise"));
}

TEST_CASE("fewer than six seeds give no verdict, however far apart the bounds are", "[sweep]") {
  const SweepVerdict found =
      verdict(points_with({{50, 51, 52, 53, 54}, {90, 91, 92, 93, 94}}), kHalf);
  CHECK_FALSE(found.is_given);
  CHECK(found.tests.empty());
  CHECK_THAT(found.text, Contains("No verdict: 5 seeds, of which at least 6"));
  CHECK_THAT(found.text, !Contains("soonest") && !Contains("p ="));
}

TEST_CASE("two tests of a run give no verdict, and say which interval would", "[sweep]") {
  const std::vector<double> far = {90, 91, 92, 93, 94, 95};
  const std::vector<double> near = {50, 51, 52, 53, 54, 55};
  const SweepVerdict found = verdict(points_with({near, far}, 2), kHalf);
  CHECK_FALSE(found.is_given);
  CHECK_THAT(found.text, Contains("No verdict: 2 tests from a run's start"));
  CHECK_THAT(found.text, Contains("at least 20") && Contains("test_interval of at most 5"));
  CHECK_FALSE(verdict(points_with({near, far}, 19), kHalf).is_given);
  CHECK(verdict(points_with({near, far}, 20), kHalf).is_given);
}

TEST_CASE("the seeds that a verdict needs follow from the test and the number of bounds",
          "[sweep]") {
  // For each pair the lowest p-value of n seeds is 2 / 2^n, times the pairs.
  CHECK(seeds_needed(1) == 6);
  CHECK(seeds_needed(2) == 6);
  CHECK(seeds_needed(3) == 7);
  CHECK(seeds_needed(4) == 8);
  CHECK(seeds_needed(6) == 10);
  CHECK(differences_needed(1, 0.05) == 6);
  // Where the test is the normal distribution's, its lowest p-values count.
  CHECK(lowest_sign_flip_p(25) == sign_flip_p(std::vector<double>(25, 3.0)));
  CHECK(differences_needed(500'000, 0.05) > 25);

  const std::vector<double> near = {50, 51, 52, 53, 54, 55};
  const std::vector<double> far = {90, 91, 92, 93, 94, 95};
  const SweepVerdict found = verdict(points_with({near, far, far}), kHalf);
  CHECK_FALSE(found.is_given);
  CHECK_THAT(found.text, Contains("No verdict: 6 seeds, of which at least 7 are needed to tell a "
                                  "lead among 3 bounds from chance"));
  CHECK(verdict(points_with({near, far}), kHalf).is_given);
}

TEST_CASE("a plan says before it runs which number of seeds could give a verdict", "[sweep]") {
  SweepPlan plan;
  for (const char* slack : {"0", "1", "2", "async"}) plan.points.push_back({slack, 2, "", {}});
  plan.points.push_back({"0", 4, "", {}});  // in its own group
  CHECK(too_few_seeds(plan, 3) ==
        "With 3 seeds there will be no verdict on 4 bounds; with 8 there can be one.");
  CHECK(too_few_seeds(plan, 8).empty());
  plan.points.resize(1);
  CHECK(too_few_seeds(plan, 1).empty());
}

TEST_CASE("tests that dominate a run's time give no verdict, and say what would", "[sweep]") {
  const std::vector<double> near = {50, 51, 52, 53, 54, 55};
  const std::vector<double> far = {90, 91, 92, 93, 94, 95};
  auto points = points_with({near, far});
  CHECK_THAT(basis_of(points, kHalf)[2], Contains("not in its records"));
  points[0].test_share = spread({0.02, 0.04});
  points[1].test_share = spread({0.1, 0.1});
  CHECK(verdict(points, kHalf).is_given);
  CHECK(basis_of(points, kHalf)[2] ==
        "tests' share of a run's time: 3.0 % (BSP) to 10.0 % (slack 1)");
  points[1].test_share = spread({0.5, 0.5});
  points[1].point.job.mutable_solver_param()->add_test_iter(100);
  SweepVerdict found = verdict(points, kHalf);
  CHECK_FALSE(found.is_given);
  // As much training as testing: a ninth of the tests is a tenth of the whole.
  CHECK(found.text ==
        "No verdict: tests that take 50.0 % of a run's time (slack 1), of which at most 10 % leave "
        "it to the training (a test_iter of at most 11, or a target that takes 9 times as many "
        "clocks, with the same number of tests). Every run is listed.");
  points[1].test_share = spread({0.104, 0.104});
  CHECK_THAT(verdict(points, kHalf).text,
             Contains("tests that take 10.4 % of a run's time") &&
                 Contains("a test_iter of at most 95, or a target that takes 1.1 times as many"));
  points[1].test_share = spread({0.5, 0.5});
  points[1].point.job.mutable_solver_param()->set_test_iter(0, 4);
  CHECK_THAT(verdict(points, kHalf).text,
             Contains("training (a target that takes 9 times as many clocks, with"));
}

TEST_CASE("seeds are paired: only those that both bounds have count", "[sweep]") {
  auto points = points_with({{50, 51, 52, 53, 54, 55}, {90, 91, 92, 93, 94, 95}});
  // The other bound's runs are of other seeds.
  auto moved = points[1].by_seed;
  points[1].by_seed.clear();
  for (auto& [seed, time] : moved) points[1].by_seed[seed + 3] = time;
  CHECK_THAT(verdict(points, kHalf).text, Contains("No verdict: 3 seeds"));
}

TEST_CASE("a verdict says how its target was chosen, and what its tests are worth", "[sweep]") {
  const auto points = points_with({{50, 60}, {70, 80}});
  SweepTarget target = kHalf;
  target.metric.test_records = 2500;
  const auto joined = [&] {
    std::string text;
    for (const std::string& line : basis_of(points, target)) text += line + "\n";
    return text;
  };
  CHECK_THAT(joined(), Contains("50.0 % test accuracy, fixed before the runs"));
  CHECK_THAT(joined(), Contains("tests of a run: 21, 21 around the target"));
  // The square root of 0.25 / 2500.
  CHECK_THAT(joined(), Contains("records of a test: 2500") && Contains("error of 1.00 %"));
  target.is_fixed = false;
  CHECK_THAT(joined(), Contains("chosen after the runs: the highest that every run reached"));
  target.metric = {"loss", false, false, 2500};
  CHECK_THAT(joined(), Contains("the lowest that every run") && !Contains("binomial"));
}

TEST_CASE("a bound that does not always reach the target is named and not compared", "[sweep]") {
  auto points = points_with({{50, 51, 52, 53, 54, 55}, {10, 10, 10, 10, 10, 10}});
  points[1].seconds_to_target.pop_back();
  CHECK_THAT(verdict(points, kHalf).text, Contains("(slack 1 did not always reach 50.0 %") &&
                                              Contains("no other bound always did"));
  points[0].seconds_to_target.clear();
  CHECK_THAT(verdict(points, kHalf).text, Contains("No bound reached 50.0 %"));
  for (PointFigures& point : points) point.runs.clear();
  CHECK(verdict(points, kHalf).text == "No run has finished, so there is nothing to compare.");
}

TEST_CASE("runs that shared cores with others give no verdict", "[sweep]") {
  const std::vector<double> slow = {30, 31, 32, 33, 34, 35};
  const std::vector<double> fast = {10, 11, 12, 13, 14, 15};
  std::vector<PointFigures> points = points_with({slow, fast});
  CHECK(verdict(points, kHalf).is_given);
  for (RunResult& run : points[0].runs) run.company = {2, 2, 4};
  CHECK(verdict(points, kHalf).is_given);
  points[0].runs[3].company = {2, 3, 4};
  const SweepVerdict found = verdict(points, kHalf);
  CHECK_FALSE(found.is_given);
  CHECK_THAT(found.text, Contains("shared cores, whose times are not comparable"));
  // One run alone may have more threads than there are cores.
  CHECK_FALSE(Company{1, 8, 2}.shares_cores());
}

TEST_CASE("where a run learned nothing there is no target, and 0 % is none", "[sweep]") {
  SweepTarget none;
  const SweepVerdict found = verdict(points_with({{10, 11, 12, 13, 14, 15}}), none);
  CHECK_FALSE(found.is_given);
  CHECK_THAT(found.text, Contains("best test accuracy rounds to 0 %"));
  CHECK_THAT(found.text, !Contains("0.0 %"));
}

TEST_CASE("a target that is given after the runs says so", "[sweep]") {
  SweepTarget late = kHalf;
  late.is_fixed = false;
  late.is_late = true;
  CHECK_THAT(basis_of(points_with({{10, 11}}), late)[0], Contains("given after the runs"));
}

TEST_CASE("a metric that is better where it is lower is reached from above", "[sweep]") {
  const Curve curve{{0, 10, 20}, {2.0, 1.0, 0.5}};
  CHECK(first_reaching(curve, 1.5, false).value() == Approx(5));
  CHECK_FALSE(first_reaching(curve, 0.4, false).has_value());
  const SweepMetric loss{"loss", false, false, 0};
  CHECK(loss.better(0.1, 0.2));
  CHECK(loss.text(0.12341) == "0.1234");
  CHECK(loss.test_error(0.5) == 0);
}

TEST_CASE("a run is read from its workers' metrics and its summary", "[sweep]") {
  const test::TempFolder folder;
  const std::string header =
      "clock,unix_time_s,wall_s,loss,images,images_per_second,compute_s,wait_s,reads,"
      "staleness_mean,staleness_max,test_accuracy,test_loss,test_s\n";
  folder.write("job1-worker0/metrics.csv", header +
                                               "0,101,1,2.0,64,64,0.75,0.25,8,0,0,,,\n"
                                               "1,102,2,,,,,,,,,0.5,1.1,0.5\n"
                                               "1,103,3,1.0,64,64,0.75,0.25,8,0,0,,,\n"
                                               "2,104,4,,,,,,,,,0.75,0.9,0.5\n"
                                               "2,104.5,4.5,,,,,,,,,,0.9,0.25\n"
                                               "2,105,5,1.0,6");
  folder.write("job1-worker1/metrics.csv", header +
                                               "0,102,1,3.0,64,64,1,0,8,0,0,,,\n"
                                               "1,104,3,1.0,64,64,1,0,8,0,0,,,\n");
  folder.write("summary.json",
               "{\"rate\":64,\"staleness\":[{\"staleness\":0,\"reads\":3},"
               "{\"staleness\":2,\"reads\":1}]}");
  const auto read = read_run(folder.path());
  INFO((read ? std::string() : read.error().message));
  REQUIRE(read.has_value());
  const RunResult& run = read.value();
  CHECK(run.wall_s == 4);
  CHECK(run.clocks == 2);
  CHECK(run.rate == 64);
  CHECK(run.wait_share == Approx(0.125));
  CHECK(run.test_by_time.x == std::vector<double>{2, 4});
  CHECK(run.test_by_clock.x == std::vector<double>{1, 2});
  CHECK(run.final_value == 0.75);
  CHECK(run.mean_staleness == 0.5);
  CHECK(run.staleness.at(2) == 1);
  // The test at 104.5 is after the last clock.
  CHECK(run.test_share == Approx(0.25));

  const auto with = [&](const std::string& name) {
    const auto found = read_run(folder.path(), SweepMetric{name, false, false, 0});
    INFO((found ? std::string() : found.error().message));
    REQUIRE(found.has_value());
    return found.value();
  };
  CHECK(with("loss").test_by_time.y == std::vector<double>{1.1, 0.9, 0.9});
  CHECK(with("loss").best_value == 0.9);
  CHECK(with("perplexity").test_by_time.y[0] == Approx(std::exp(1.1)));
  CHECK_THAT(read_run(folder.path(), SweepMetric{"error", false, false, 0}).error().message,
             Contains("no test error was recorded"));
  folder.write("job1-worker0/tests.csv",
               "clock,unix_time_s,wall_s,output,value\n"
               "1,102,2,loss,1.1\n1,102,2,error,0.7\n2,104,4,error,0.6\n2,104,4,err");
  CHECK(with("error").test_by_time.y == std::vector<double>{0.7, 0.6});
  CHECK(with("error").test_by_clock.x == std::vector<double>{1, 2});
}

TEST_CASE("a folder without a complete run reports what is missing", "[sweep]") {
  const test::TempFolder folder;
  const auto message = [&] { return read_run(folder.path()).error().message; };
  CHECK_THAT(message(), Contains("summary.json"));
  folder.write("summary.json", "{}");
  CHECK_THAT(message(), Contains("is not the summary of a run"));
  folder.write("summary.json", "{\"staleness\":[]}");
  CHECK_THAT(message(), Contains("no worker left a metrics.csv"));
  folder.write("job1-worker0/metrics.csv", "clock,loss\n1,2\n");
  CHECK_THAT(message(), Contains("has no column \"unix_time_s\""));
  folder.write("job1-worker0/metrics.csv",
               "clock,unix_time_s,wall_s,loss,images,compute_s,wait_s,test_accuracy,test_loss\n"
               "0,1,1,1,1,1,1,,\n");
  CHECK_THAT(message(), Contains("no test accuracy was recorded"));
  // A test of a net without an Accuracy is no line of the training.
  folder.write("job1-worker0/metrics.csv",
               "clock,unix_time_s,wall_s,loss,images,compute_s,wait_s,test_accuracy,test_loss\n"
               "0,1,1,1,1,1,1,,\n"
               "1,2,2,,,,,,\n");
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
