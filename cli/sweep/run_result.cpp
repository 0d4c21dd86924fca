#include "cli/sweep/run_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
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
  double images = 0;
  Curve tests;  // accuracy over seconds since 1970
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

Result<WorkerMetrics> read_metrics(const fs::path& path) {
  TAUT_TRY(const std::string text, read_file(path));
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> header = cells_of(line);
  std::map<std::string, std::size_t> column;
  for (std::size_t i = 0; i < header.size(); ++i) column[header[i]] = i;
  for (const char* needed : {"clock", "unix_time_s", "wall_s", "loss", "images", "compute_s",
                             "wait_s", "test_accuracy"}) {
    if (!column.contains(needed)) {
      return invalid(fmt::format("{}: has no column \"{}\"", path.string(), needed));
    }
  }
  WorkerMetrics metrics;
  while (std::getline(lines, line)) {
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() != header.size()) continue;  // cut short by the process's end
    const auto value = [&](const char* name) { return number(cells[column[name]]); };
    const double at = value("unix_time_s");
    if (metrics.began == 0) metrics.began = at - value("wall_s");
    if (cells[column["images"]].empty()) {  // a test's line, of a net with an Accuracy or without
      const double accuracy = value("test_accuracy");
      if (!std::isnan(accuracy)) metrics.tests.add(at, accuracy);
      continue;
    }
    metrics.at.push_back(at);
    metrics.clock.push_back(value("clock") + 1);
    metrics.loss.push_back(value("loss"));
    metrics.compute_s += value("compute_s");
    metrics.wait_s += value("wait_s");
    metrics.images += value("images");
  }
  return metrics;
}

/// Clocks that a worker has finished by a time.
double clocks_at(const WorkerMetrics& worker, double at) {
  const auto after = std::upper_bound(worker.at.begin(), worker.at.end(), at);
  return after == worker.at.begin()
             ? 0
             : worker.clock[static_cast<std::size_t>(after - worker.at.begin() - 1)];
}

void read_losses(const std::vector<WorkerMetrics>& workers, double began, RunResult& run) {
  std::vector<double> at;
  std::vector<double> clock;
  std::vector<double> loss;
  for (const WorkerMetrics& worker : workers) {
    for (std::size_t i = 0; i < worker.at.size(); ++i) at.push_back(worker.at[i] - began);
    clock.insert(clock.end(), worker.clock.begin(), worker.clock.end());
    loss.insert(loss.end(), worker.loss.begin(), worker.loss.end());
  }
  run.loss_by_time = binned(at, loss, run.wall_s, kLossBins);
  run.loss_by_clock = binned(clock, loss, run.clocks, kLossBins);
}

void read_tests(const std::vector<WorkerMetrics>& workers, double began, RunResult& run) {
  for (const WorkerMetrics& evaluator : workers) {
    for (std::size_t i = 0; i < evaluator.tests.x.size(); ++i) {
      const double at = evaluator.tests.x[i];
      double clocks = 0;
      for (const WorkerMetrics& worker : workers) clocks += clocks_at(worker, at);
      clocks /= static_cast<double>(workers.size());
      run.accuracy_by_time.add(at - began, evaluator.tests.y[i]);
      run.accuracy_by_clock.add(clocks, evaluator.tests.y[i]);
      run.best_accuracy = std::max(run.best_accuracy, evaluator.tests.y[i]);
      run.final_accuracy = evaluator.tests.y[i];
    }
  }
}

Result<void> read_summary(const fs::path& path, RunResult& run) {
  TAUT_TRY(const std::string text, read_file(path));
  const auto summary = nlohmann::json::parse(text, nullptr, false);
  if (!summary.is_object() || !summary.contains("staleness")) {
    return invalid(fmt::format("{}: is no run's summary", path.string()));
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
  return ok();
}

}  // namespace

Result<RunResult> read_run(const fs::path& folder) {
  RunResult run;
  TAUT_TRY(read_summary(folder / "summary.json", run));
  std::vector<WorkerMetrics> workers;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const fs::path metrics = entry.path() / "metrics.csv";
    if (!fs::exists(metrics, failed)) continue;
    TAUT_TRY(WorkerMetrics worker, read_metrics(metrics));
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
  double images = 0;
  for (const WorkerMetrics& worker : workers) {
    began = std::min(began, worker.began);
    ended = std::max(ended, worker.at.back());
    compute_s += worker.compute_s;
    wait_s += worker.wait_s;
    images += worker.images;
    run.clocks += worker.clock.back() / static_cast<double>(workers.size());
  }
  run.wall_s = ended - began;
  run.images_per_second = run.wall_s > 0 ? images / run.wall_s : 0;
  run.wait_share = compute_s + wait_s > 0 ? wait_s / (compute_s + wait_s) : 0;
  read_losses(workers, began, run);
  read_tests(workers, began, run);
  if (run.accuracy_by_time.x.empty()) {
    return invalid(
        fmt::format("{}: no test accuracy was recorded; the solver needs test_iter and "
                    "test_interval, and the net an Accuracy layer",
                    folder.string()));
  }
  return run;
}

}  // namespace taut::cli
