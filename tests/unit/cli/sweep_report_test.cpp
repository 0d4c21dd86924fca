#include "cli/sweep/chart.hpp"
#include "cli/sweep/report.hpp"
#include "tests/support/catch.hpp"

using Catch::Matchers::Contains;

namespace taut::cli {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

/// Two bounds with two seeds each, and a failed run.
SweepReport report() {
  SweepPlan plan;
  SweepReport made;
  made.name = "a <b> & c";
  made.target = 0.5;
  for (const std::string slack : {"0", "async"}) {
    plan.points.push_back({slack, 2, "", {}});
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      SweepOutcome outcome;
      outcome.run = {plan.points.size() - 1, seed, "slack" + slack, {}};
      RunResult run;
      const double end = slack == "0" ? 40 : 20 + static_cast<double>(seed);
      run.accuracy_by_time = {{0, end}, {0.1, 0.9}};
      run.accuracy_by_clock = {{0, 100}, {0.1, 0.9}};
      run.loss_by_time = {{0, end}, {2, 0.5}};
      run.loss_by_clock = {{0, 100}, {2, 0.5}};
      run.images_per_second = 6400 / end;
      run.final_accuracy = run.best_accuracy = 0.9;
      run.staleness = {{0, 10}, {7, 5}};
      outcome.result = run;
      made.outcomes.push_back(outcome);
    }
  }
  SweepOutcome failed;
  failed.run = {1, 3, "slackasync-seed3", {}};
  failed.failure = "worker1 was killed, \"9\"";
  made.outcomes.push_back(failed);
  made.points = figures_of(plan, made.outcomes, made.target);
  made.setting = {{"job", "lenet"}};
  return made;
}

}  // namespace

TEST_CASE("ticks are round numbers within the range", "[sweep]") {
  CHECK(ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(ticks(0.62, 0.91, 5).front() == Approx(0.7));
  CHECK(ticks(3, 3, 5) == std::vector<double>{3});
  for (const double tick : ticks(17, 4321, 6)) CHECK((tick >= 17 && tick <= 4321));
}

TEST_CASE("a report is self-contained: no script, no address, every text escaped", "[sweep]") {
  const std::string html = report_html(report());
  CHECK_THAT(html, Contains("a &lt;b&gt; &amp; c"));
  CHECK_THAT(html, !Contains("<b>"));
  for (const char* outside : {"http:", "https:", "<script", "src=", "@import", "<link"}) {
    CHECK_THAT(html, !Contains(outside));
  }
  CHECK_THAT(html, Contains("prefers-color-scheme:dark") && Contains("name=\"viewport\""));
  CHECK(count_of(html, "<figure>") == 9);
  CHECK(count_of(html, "<svg") == count_of(html, "</svg>"));
  CHECK_THAT(html, !Contains("nan") && !Contains("inf"));
}

TEST_CASE("a report names the verdict, the failed runs and the setting", "[sweep]") {
  const std::string html = report_html(report());
  CHECK_THAT(html, Contains("Async reached 50.0 % test accuracy soonest"));
  CHECK_THAT(html, Contains("slackasync-seed3: worker1 was killed, &quot;9&quot;"));
  CHECK_THAT(html, Contains("<dt>job</dt><dd>lenet</dd>"));
}

TEST_CASE("a policy is a row, a series and a name under its dots like any bound", "[sweep]") {
  SweepReport made = report();
  made.points[1].point.slack = "delay, compensated";
  made.points[1].point.is_policy = true;
  const std::string html = report_html(made);
  CHECK_THAT(html, Contains("Delay, compensated reached 50.0 % test accuracy soonest"));
  CHECK_THAT(html, Contains("<td>delay, compensated</td>") && Contains("slack or policy"));
  // No axis leads from a bound to a policy.
  CHECK_THAT(report_html(report()), Contains("throughput goes from"));
  CHECK_THAT(html, !Contains("throughput goes from"));
  // Two names of this width have room; eight have not, and lean.
  CHECK_THAT(html, !Contains("rotate(-45)"));
  while (made.points.size() < 8) made.points.push_back(made.points[1]);
  const std::string crowded = report_html(made);
  CHECK(count_of(crowded, "rotate(-45)\">delay, compensated</text>") == 4 * 7);
  CHECK_THAT(runs_csv(made), Contains("\n\"delay, compensated\",2,,1,done,"));
}

TEST_CASE("points that differ in more than slack get a section each", "[sweep]") {
  SweepReport two = report();
  two.points[1].point.workers = 4;
  const std::string html = report_html(two);
  CHECK_THAT(html, Contains("<h2>2 workers</h2>") && Contains("<h2>4 workers</h2>"));
  CHECK(groups_of(two.points).size() == 2);
}

TEST_CASE("a bound whose runs all failed has a place and no figures", "[sweep]") {
  SweepReport made = report();
  PointFigures empty;
  empty.point = made.points[1].point;
  made.points[1] = empty;
  const std::string html = report_html(made);
  CHECK_THAT(html, Contains(">failed</text>"));
  CHECK_THAT(html, !Contains("nan"));
}

TEST_CASE("the CSV files have a line for each run, point and place", "[sweep]") {
  const SweepReport made = report();
  const std::string runs = runs_csv(made);
  CHECK(count_of(runs, "\n") == 6);
  CHECK_THAT(runs, Contains("async,2,,3,failed,\"worker1 was killed, \"\"9\"\"\","));
  CHECK_THAT(runs, Contains("0,2,,1,done,,"));
  const std::string points = points_csv(made);
  CHECK(count_of(points, "\n") == 3);
  // Half of the way from 0.1 to 0.9 in 40 s.
  CHECK_THAT(points, Contains("0,2,,2,2,20,0,50,0,0.9,0,160,0"));
  CHECK(count_of(curves_csv(made), "\n") == 1 + 4 * 8);
  // As many cells in each line as the header has.
  const std::string header = runs.substr(0, runs.find('\n'));
  const std::string first =
      runs.substr(header.size() + 1, runs.find('\n', header.size() + 1) - header.size() - 1);
  CHECK(count_of(header, ",") == count_of(first, ","));
}

}  // namespace taut::cli
