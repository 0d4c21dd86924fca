#include "cli/sweep/run_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "common/files/file.hpp"

namespace taut::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLossBins = 100;

/// One worker's metrics.csv.
struct WorkerMetrics {
  std::vector<double> at;  // seconds since 1970
  std::vector<double> clock;
  std::vector<double> loss;
  double began = 0;
  double compute_s = 0;
  double wait_s = 0;
  Curve tests;                                        // the metric over seconds since 1970
  std::vector<std::pair<double, double>> tests_took;  // seconds since 1970 at the end, seconds
  bool has_test_times = false;
};

double number(const std::string& cell) {
  return cell.empty() ? std::nan("") : std::strtod(cell.c_str(), nullptr);
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

/// A CSV file's lines by column; omits a last line that was cut short when the process ended.
class CsvLines {
 public:
  /// Errors    not_found; invalid: a required column is missing
  static Result<CsvLines> open(const fs::path& path, const std::vector<const char*>& needed) {
    TAUT_TRY(std::string text, read_file(path));
    CsvLines csv(std::move(text));
    for (const char* name : needed) {
      if (csv.columns_.contains(name)) continue;
      return invalid(fmt::format("{}: has no column \"{}\"", path.string(), name));
    }
    return csv;
  }

  bool next() {
    for (std::string line; std::getline(lines_, line);) {
      cells_ = cells_of(line);
      // More cells than columns: an earlier build started the file.
      if (cells_.size() >= columns_.size()) return true;
    }
    return false;
  }
  [[nodiscard]] bool has(const char* name) const { return columns_.contains(name); }
  [[nodiscard]] const std::string& cell(const char* name) const {
    return cells_[columns_.at(name)];
  }
  [[nodiscard]] double value(const char* name) const { return number(cell(name)); }

 private:
  explicit CsvLines(std::string text) : lines_(std::move(text)) {
    std::string line;
    std::getline(lines_, line);
    for (std::string& name : cells_of(line)) columns_.emplace(std::move(name), columns_.size());
  }

  std::istringstream lines_;
  std::map<std::string, std::size_t> columns_;
  std::vector<std::string> cells_;
};

/// The metric in a test's line of metrics.csv; NaN: it is in tests.csv, or the test lacks it.
double value_in(const CsvLines& csv, const SweepMetric& metric) {
  if (metric.name == "accuracy") return csv.value("test_accuracy");
  if (metric.name == "loss") return csv.value("test_loss");
  if (metric.name == "perplexity") return std::exp(csv.value("test_loss"));
  return std::nan("");
}

/// An output of the test net over time, from tests.csv.
Result<Curve> read_output(const fs::path& path, const std::string& name) {
  Curve curve;
  std::error_code failed;
  if (!fs::exists(path, failed)) return curve;
  TAUT_TRY(CsvLines csv, CsvLines::open(path, {"unix_time_s", "output", "value"}));
  while (csv.next()) {
    const double value = csv.value("value");
    if (csv.cell("output") == name && !std::isnan(value))
      curve.add(csv.value("unix_time_s"), value);
  }
  return curve;
}

Result<WorkerMetrics> read_metrics(const fs::path& path, const SweepMetric& metric) {
  TAUT_TRY(CsvLines csv,
           CsvLines::open(path, {"clock", "unix_time_s", "wall_s", "loss", "images", "compute_s",
                                 "wait_s", "test_accuracy", "test_loss"}));
  WorkerMetrics metrics;
  metrics.has_test_times = csv.has("test_s");
  while (csv.next()) {
    const double at = csv.value("unix_time_s");
    if (metrics.began == 0) metrics.began = at - csv.value("wall_s");
    if (csv.cell("images").empty()) {  // a test's line, of a net with an Accuracy or without
      const double value = value_in(csv, metric);
      if (!std::isnan(value)) metrics.tests.add(at, value);
      if (metrics.has_test_times) metrics.tests_took.emplace_back(at, csv.value("test_s"));
      continue;
    }
    metrics.at.push_back(at);
    metrics.clock.push_back(csv.value("clock") + 1);
    metrics.loss.push_back(csv.value("loss"));
    metrics.compute_s += csv.value("compute_s");
    metrics.wait_s += csv.value("wait_s");
  }
  if (metrics.tests.x.empty()) {
    TAUT_TRY(metrics.tests, read_output(path.parent_path() / "tests.csv", metric.name));
  }
  return metrics;
}

/// How many clocks a worker has finished by a time.
double clocks_at(const WorkerMetrics& worker, double at) {
  const auto after = std::upper_bound(worker.at.begin(), worker.at.end(), at);
  return after == worker.at.begin()
             ? 0
             : worker.clock[static_cast<std::size_t>(after - worker.at.begin() - 1)];
}

/// Within a run's time, from its start to its last clock. The last test is made after that.
std::optional<double> test_share(const std::vector<WorkerMetrics>& workers, double began,
                                 double ended) {
  if (ended <= began) return std::nullopt;
  double tested_s = 0;
  for (const WorkerMetrics& worker : workers) {
    if (!worker.has_test_times) return std::nullopt;
    for (const auto& [at, took_s] : worker.tests_took) {
      if (at <= ended) tested_s += took_s;
    }
  }
  return tested_s / (ended - began);
}

void read_losses(const std::vector<WorkerMetrics>& workers, double began, RunResult& run) {
  std::vector<double> at;
  std::vector<double> clock;
  std::vector<double> loss;
  for (const WorkerMetrics& worker : workers) {
    for (const double time : worker.at) at.push_back(time - began);
    clock.insert(clock.end(), worker.clock.begin(), worker.clock.end());
    loss.insert(loss.end(), worker.loss.begin(), worker.loss.end());
  }
  run.loss_by_time = binned(at, loss, run.wall_s, kLossBins);
  run.loss_by_clock = binned(clock, loss, run.clocks, kLossBins);
}

void read_tests(const std::vector<WorkerMetrics>& workers, double began, const SweepMetric& metric,
                RunResult& run) {
  for (const WorkerMetrics& evaluator : workers) {
    for (std::size_t i = 0; i < evaluator.tests.x.size(); ++i) {
      const double at = evaluator.tests.x[i];
      double clocks = 0;
      for (const WorkerMetrics& worker : workers) clocks += clocks_at(worker, at);
      clocks /= static_cast<double>(workers.size());
      const double value = evaluator.tests.y[i];
      const bool is_first = run.test_by_time.x.empty();
      run.test_by_time.add(at - began, value);
      run.test_by_clock.add(clocks, value);
      if (is_first || metric.better(value, run.best_value)) run.best_value = value;
      run.final_value = value;
    }
  }
}

Result<void> read_summary(const fs::path& path, RunResult& run) {
  TAUT_TRY(const std::string text, read_file(path));
  const auto summary = nlohmann::json::parse(text, nullptr, false);
  if (!summary.is_object() || !summary.contains("staleness")) {
    return invalid(fmt::format("{}: is not the summary of a run", path.string()));
  }
  double sum = 0;
  double reads = 0;
  for (const auto& bin : summary["staleness"]) {
    const auto staleness = bin.value("staleness", std::int64_t{0});
    const auto count = bin.value("reads", std::uint64_t{0});
    run.staleness[staleness] += count;
    sum += static_cast<double>(staleness) * static_cast<double>(count);
    reads += static_cast<double>(count);
  }
  if (reads > 0) run.mean_staleness = sum / reads;
  // The same figure as the run itself showed.
  run.rate = summary.value("rate", 0.0);
  return ok();
}

}  // namespace

Result<RunResult> read_run(const fs::path& folder, const SweepMetric& metric) {
  RunResult run;
  TAUT_TRY(read_summary(folder / "summary.json", run));
  run.company = company_of(folder);
  std::vector<WorkerMetrics> workers;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const fs::path metrics = entry.path() / "metrics.csv";
    if (!fs::exists(metrics, failed)) continue;
    TAUT_TRY(WorkerMetrics worker, read_metrics(metrics, metric));
    if (!worker.at.empty()) workers.push_back(std::move(worker));
  }
  if (workers.empty()) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: no worker left a metrics.csv", folder.string()));
  }
  double began = workers.front().began;
  double ended = 0;
  double compute_s = 0;
  double wait_s = 0;
  for (const WorkerMetrics& worker : workers) {
    began = std::min(began, worker.began);
    ended = std::max(ended, worker.at.back());
    compute_s += worker.compute_s;
    wait_s += worker.wait_s;
    run.clocks += worker.clock.back() / static_cast<double>(workers.size());
  }
  run.wall_s = ended - began;
  run.test_share = test_share(workers, began, ended);
  run.wait_share = compute_s + wait_s > 0 ? wait_s / (compute_s + wait_s) : 0;
  read_losses(workers, began, run);
  read_tests(workers, began, metric, run);
  if (run.test_by_time.x.empty()) {
    return invalid(fmt::format("{}: no {} was recorded", folder.string(), metric.title()));
  }
  return run;
}

}  // namespace taut::cli
