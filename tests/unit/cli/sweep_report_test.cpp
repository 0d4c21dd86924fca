#include <fmt/format.h>

#include "cli/sweep/report/chart.hpp"
#include "cli/sweep/report/report.hpp"
#include "cli/sweep/sweep_setting.hpp"
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

/// Curves that rise to 0.9, with a test at each of 41 places.
Curve rising(double end) {
  Curve curve;
  for (int i = 0; i <= 40; ++i) curve.add(end * i / 40, 0.1 + 0.8 * i / 40);
  return curve;
}

/// Two bounds with some seeds each, and a failed run.
SweepReport report(std::uint64_t seeds = 2) {
  SweepPlan plan;
  SweepReport created;
  created.name = "a <b> & c";
  created.target.value = 0.5;
  for (const std::string slack : {"0", "async"}) {
    plan.points.push_back({slack, 2, "", {}});
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      SweepOutcome outcome;
      outcome.run = {plan.points.size() - 1, seed, "slack" + slack, {}};
      RunResult run;
      const double end = slack == "0" ? 40 : 20 + static_cast<double>(seed);
      run.test_by_time = rising(end);
      run.test_by_clock = rising(100);
      run.loss_by_time = {{0, end}, {2, 0.5}};
      run.loss_by_clock = {{0, 100}, {2, 0.5}};
      run.rate = 6400 / end;
      run.final_value = run.best_value = 0.9;
      run.staleness = {{0, 10}, {7, 5}};
      outcome.result = run;
      created.outcomes.push_back(outcome);
    }
  }
  SweepOutcome failed;
  failed.run = {1, seeds + 1, fmt::format("slackasync-seed{}", seeds + 1), {}};
  failed.failure = "worker1 was killed, \"9\"";
  created.outcomes.push_back(failed);
  created.points = figures_of(plan, created.outcomes, created.target);
  created.setting = {{"job", "lenet"}};
  return created;
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
  const std::string html = report_html(report(6));
  CHECK_THAT(html, Contains("Async reached 50.0\u00a0% test accuracy soonest"));
  CHECK_THAT(html, Contains("class=\"best\""));
  CHECK_THAT(html, Contains("chosen after the runs"));
  CHECK_THAT(html, Contains("slackasync-seed7: worker1 was killed, &quot;9&quot;"));
  CHECK_THAT(html, Contains("<dt>job</dt><dd>lenet</dd>"));
}

TEST_CASE("a report of two seeds lists every run and marks no bound", "[sweep]") {
  const std::string html = report_html(report());
  CHECK_THAT(html, Contains("No verdict: 2\u00a0seeds"));
  CHECK_THAT(html, !Contains("soonest, in") && !Contains("class=\"best\""));
  CHECK_THAT(html, Contains("<tr><td>BSP</td><td>20.0</td><td>20.0</td></tr>"));
  CHECK_THAT(html, Contains("<tr><td>async</td><td>10.5</td><td>11.0</td></tr>"));
}

TEST_CASE("a report of losses names them, on their own axis", "[sweep]") {
  SweepReport created = report();
  created.target.metric = {"loss", false, false, 0};
  const std::string html = report_html(created);
  CHECK_THAT(html, Contains("Test loss over wall time") && Contains("<th>final loss</th>"));
  CHECK_THAT(html, !Contains("accuracy"));
  CHECK_THAT(runs_csv(created), Contains("final_loss,best_loss") && !Contains("accuracy"));
  CHECK_THAT(curves_csv(created), Contains("test_loss"));
}

TEST_CASE("a policy is a row, a series and a name under its dots like any bound", "[sweep]") {
  SweepReport created = report(6);
  created.points[1].point.slack = "delay, compensated";
  created.points[1].point.is_policy = true;
  const std::string html = report_html(created);
  CHECK_THAT(html, Contains("Delay, compensated reached 50.0\u00a0% test accuracy soonest"));
  CHECK_THAT(html, Contains("<td>delay, compensated</td>") && Contains("slack or policy"));
  // No axis leads from a bound to a policy.
  CHECK_THAT(report_html(report()), Contains("throughput goes from"));
  CHECK_THAT(html, !Contains("throughput goes from"));
  // Two names of this width have room; eight have not, and lean.
  CHECK_THAT(html, !Contains("rotate(-45)"));
  while (created.points.size() < 8) created.points.push_back(created.points[1]);
  const std::string crowded = report_html(created);
  CHECK(count_of(crowded, "rotate(-45)\">delay, compensated</text>") == 4 * 7);
  CHECK_THAT(runs_csv(created), Contains("\n\"delay, compensated\",2,,1,done,"));
}

TEST_CASE("points that differ in more than slack get a section each", "[sweep]") {
  SweepReport two = report();
  two.points[1].point.workers = 4;
  const std::string html = report_html(two);
  CHECK_THAT(html, Contains("<h2>2 workers</h2>") && Contains("<h2>4 workers</h2>"));
  CHECK(groups_of(two.points, two.target.metric).size() == 2);
}

TEST_CASE("clusters of the lab have a section each, and a column", "[sweep]") {
  SweepReport two = report();
  CHECK_THAT(points_csv(two), !Contains("cluster"));
  two.is_in_lab = true;
  two.points[0].point.cluster = "near";
  two.points[1].point.cluster = "far, slow";
  CHECK_THAT(report_html(two),
             Contains("<h2>2 workers, near</h2>") && Contains("<h2>2 workers, far, slow</h2>"));
  CHECK_THAT(points_csv(two), Contains("slack,workers,variant,cluster,runs,") &&
                                  Contains("\n0,2,,near,2,") &&
                                  Contains("\nasync,2,,\"far, slow\",2,"));
  CHECK_THAT(runs_csv(two),
             Contains("slack,workers,variant,cluster,seed,") && Contains("\n0,2,,near,1,done,"));
  CHECK_THAT(curves_csv(two), Contains("slack,workers,variant,cluster,seed,quantity,"));
}

TEST_CASE("a report of settings has them from the best on, and charts of the best eight",
          "[sweep]") {
  SweepReport created = report();
  created.fields = {"solver.base_lr"};
  const PointFigures one = created.points[0];
  created.points.clear();
  for (int i = 0; i < 10; ++i) {
    PointFigures point = one;
    point.point.is_by_setting = true;
    point.point.values = {fmt::format("0.{}", i)};
    point.point.setting = "base_lr " + point.point.values[0];
    point.final_value.mean = 0.1 * i;
    created.points.push_back(point);
  }
  created.outcomes.clear();
  const std::string html = report_html(created);
  CHECK_THAT(html, Contains("which setting?") && Contains("<th>setting</th>"));
  CHECK_THAT(html, Contains("the 8 settings with the best final accuracy of 10"));
  CHECK(html.find("<td>base_lr 0.9</td>") < html.find("<td>base_lr 0.8</td>"));
  CHECK_THAT(html, Contains("<td>base_lr 0.0</td>") && !Contains(": base_lr 0.1</li>"));
  CHECK_THAT(html, Contains("</svg>#8: base_lr 0.2</li>") && !Contains("throughput goes from"));
  // Axes have the numbers, which the legend explains: the names are too long for them.
  CHECK_THAT(html, Contains(">#8</text>") && !Contains(">base_lr 0.2</text>"));
  CHECK_THAT(html, Contains("The best final test accuracy is 90.0\u00a0%, with base_lr 0.9: the "
                            "mean over 2\u00a0seeds, of the best of 10."));
  CHECK_THAT(points_csv(created), Contains("slack,workers,variant,solver.base_lr,runs,"));
  CHECK_THAT(points_csv(created), Contains("0,2,,0.3,2,"));
}

TEST_CASE("a deviation that is not 0 is never shown as 0", "[sweep]") {
  CHECK(plus_minus({3, 12.34, 0.004}, 1, "±") == "12.340 ± 0.004");
  CHECK(plus_minus({3, 12.34, 0.06}, 1, "±") == "12.3 ± 0.1");
  CHECK(plus_minus({3, 12.34, 0}, 1, "±") == "12.3 ± 0");
  CHECK(plus_minus({1, 12.34, 0}, 1, "±") == "12.3");
  CHECK(plus_minus({2, 0.9, 0.00002}, 2, "+-", 100) == "90.000 +- 0.002");
}

TEST_CASE("a short time keeps two digits", "[sweep]") {
  CHECK(plus_minus({1, 0.0274, 0}, 1, "±") == "0.027");
  CHECK(figure_text(0.0274, 1) == "0.027");
  CHECK(figure_text(13.84, 1) == "13.8");
  CHECK(figure_text(0, 1) == "0.0");
  CHECK(plus_minus({1, 1234.5, 0}, 0, "±") == "1234");
}

TEST_CASE("a bound whose runs all failed has a place and no figures", "[sweep]") {
  SweepReport created = report();
  PointFigures empty;
  empty.point = created.points[1].point;
  created.points[1] = empty;
  const std::string html = report_html(created);
  CHECK_THAT(html, Contains(">failed</text>"));
  CHECK_THAT(html, !Contains("nan"));
}

TEST_CASE("the CSV files have a line for each run, point and place", "[sweep]") {
  const SweepReport created = report();
  const std::string runs = runs_csv(created);
  CHECK(count_of(runs, "\n") == 6);
  CHECK_THAT(runs, Contains("async,2,,3,failed,\"worker1 was killed, \"\"9\"\"\","));
  CHECK_THAT(runs, Contains("0,2,,1,done,,"));
  const std::string points = points_csv(created);
  CHECK(count_of(points, "\n") == 3);
  // Half of the way from 0.1 to 0.9 in 40 s.
  CHECK_THAT(points, Contains("0,2,,2,2,20,0,50,0,0.9,0,160,0"));
  CHECK(count_of(curves_csv(created), "\n") == 1 + 4 * (2 * 41 + 2 * 2));
  // As many cells in each line as the header has.
  const std::string header = runs.substr(0, runs.find('\n'));
  const std::string first =
      runs.substr(header.size() + 1, runs.find('\n', header.size() + 1) - header.size() - 1);
  CHECK(count_of(header, ",") == count_of(first, ","));
}

TEST_CASE("lines carry markers, and a chart that cuts them off says so", "[sweep]") {
  LineChart chart{{"loss", "clocks", "loss"}, {}, 0, 1, false, 0.5};
  Band band;
  for (int i = 0; i <= 100; ++i) {
    band.x.push_back(i);
    band.mean.push_back(i == 0 ? 7.5 : 0.5);
    band.deviation.push_back(0);
  }
  chart.series.push_back({"slack 2", 2, band});
  const std::string svg = line_chart(chart);
  CHECK_THAT(svg, Contains("cut off: up to 7.5"));
  CHECK(count_of(svg, "<polygon") >= 5);
  // The target's words come after the lines, which do not strike through them.
  CHECK(svg.rfind("target 0.5") > svg.rfind("<path"));
  chart.high = 8;
  CHECK(line_chart(chart).find("cut off") == std::string::npos);
}

TEST_CASE("a report says the batch of sparse records too", "[sweep]") {
  pb::Job job;
  pb::LayerParameter& tested = *job.mutable_net_param()->add_layer();
  tested.mutable_sparse_data_param()->set_batch_size(243);
  tested.add_include()->set_phase(pb::TEST);
  CHECK(batch_text(job).empty());
  job.mutable_net_param()->add_layer()->mutable_sparse_data_param()->set_batch_size(256);
  CHECK(batch_text(job) == "256 of each worker");
}

TEST_CASE("a report's batch is that of the layer that takes part in training", "[sweep]") {
  pb::Job job;
  pb::LayerParameter& tested = *job.mutable_net_param()->add_layer();
  tested.mutable_data_param()->set_batch_size(100);
  tested.add_exclude()->set_phase(pb::TRAIN);
  job.mutable_net_param()->add_layer()->mutable_dummy_data_param()->add_num(16);
  job.mutable_solver_param()->set_iter_size(2);
  job.set_global_batch(true);
  CHECK(batch_text(job) == "32 of all workers");
}

}  // namespace taut::cli
