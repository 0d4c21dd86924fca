// What policies are compared by.
#include "lab/schedule/report/figures.hpp"

#include "lab/schedule/fair_share.hpp"
#include "lab/schedule/report/completion_chart.hpp"
#include "tests/unit/lab/schedule/trial.hpp"

namespace taut::schedule {
namespace {

TEST_CASE("percentiles are values of the sample", "[schedule]") {
  std::vector<double> values;
  for (int i = 1; i <= 100; ++i) values.push_back(i);
  CHECK(percentile(values, 0.5) == 50);
  CHECK(percentile(values, 0.95) == 95);
  CHECK(percentile(values, 0.99) == 99);
  CHECK(percentile({7}, 0.99) == 7);
}

TEST_CASE("figures are those of the run", "[schedule]") {
  // The second job needs all four devices, and waits while two of them are idle.
  const auto jobs = numbered({test_job(0, 2, 100), test_job(0, 4, 100)});
  const SimulationResult result = run_policy("fifo", jobs, test_cluster("1x4"));
  const std::vector<double> fair = fair_share_s(jobs, 4);
  const Figures figures = figures_of("fifo", jobs, fair, result);
  CHECK(figures.mean_s == 150);
  CHECK(figures.p99_s == 200);
  CHECK(figures.makespan_s == 200);
  CHECK(figures.utilization == Approx(600.0 / 800));
  CHECK(figures.fragmentation == Approx(200.0 / 800));
  CHECK(figures.fairness_max == Approx(200 / fair[1]));
  CHECK(figures.energy_kwh == Approx((600 * 300 + 200 * 30) / 3.6e6));
  CHECK(figures.restarts == 0);
}

TEST_CASE("the table and the chart as files", "[schedule]") {
  const auto jobs = numbered({test_job(0, 2, 100), test_job(0, 4, 100)});
  const SimulationResult result = run_policy("fifo", jobs, test_cluster("1x4"));
  const Figures figures = figures_of("fifo", jobs, fair_share_s(jobs, 4), result);
  const std::string csv = figures_csv({figures});
  CHECK(csv.find("\nfifo,2,150.000,100.000,200.000,200.000,200.000,") != std::string::npos);
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 2);
  const std::string svg = completion_svg({completion_curve("fifo", jobs, result.jobs)});
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.find(">fifo</text>") != std::string::npos);
}

}  // namespace
}  // namespace taut::schedule
