#include <fmt/format.h>

#include <algorithm>

#include "cli/playback/run_figures.hpp"
#include "common/csv_cell.hpp"

namespace taut::cli {
namespace {

std::string time_cell(const PlayedRun& run, std::size_t bin) {
  return fmt::format("{:.6f}", run.end_s(bin));
}

std::string thousandth_cell(const PlayedRun::Shares& row, std::size_t bin) {
  return row.empty() || row[bin] == 0 ? "0" : fmt::format("{:.3f}", PlayedRun::share(row, bin));
}

std::string figure_cell(const PlayedRun::Figures& row, std::size_t bin) {
  return row.empty() || !row[bin] ? std::string() : fmt::format("{:.6g}", *row[bin]);
}

std::string optional_cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : std::string();
}

}  // namespace

std::vector<RunTable> tables_of(const PlayedRun& run) {
  std::vector<RunTable> tables{{"clocks", clocks_csv(run)},
                               {"links", links_csv(run)},
                               {"hosts", hosts_csv(run)},
                               {"training", training_csv(run)}};
  if (!run.tests.empty()) tables.push_back({"tests", tests_csv(run)});
  return tables;
}

std::vector<std::int32_t> clocks_at(const PlayedRun& run, std::size_t bin) {
  std::vector<std::int32_t> clocks;
  for (const PlayedRun::Worker& worker : run.workers) {
    if (worker.clock[bin] >= 0) clocks.push_back(worker.clock[bin]);
  }
  std::ranges::sort(clocks);
  return clocks;
}

std::string clocks_csv(const PlayedRun& run) {
  std::string csv = "virtual_s";
  for (const PlayedRun::Worker& worker : run.workers) csv += "," + csv_cell(worker.name);
  csv += "\n";
  for (std::size_t bin = 0; bin < run.bins; ++bin) {
    csv += time_cell(run, bin);
    for (const PlayedRun::Worker& worker : run.workers) {
      csv += worker.clock[bin] < 0 ? "," : fmt::format(",{}", worker.clock[bin]);
    }
    csv += "\n";
  }
  return csv;
}

std::string links_csv(const PlayedRun& run) {
  std::string csv = "virtual_s";
  for (const PlayedRun::Link& link : run.links) csv += "," + csv_cell(link.name);
  csv += "\n";
  for (std::size_t bin = 0; bin < run.bins; ++bin) {
    csv += time_cell(run, bin);
    for (const PlayedRun::Link& link : run.links) csv += "," + thousandth_cell(link.load, bin);
    csv += "\n";
  }
  return csv;
}

std::string hosts_csv(const PlayedRun& run) {
  std::string csv = "virtual_s,host";
  for (const char* state : PlayedRun::kStateNames) csv += fmt::format(",{}", state);
  csv += "\n";
  for (std::size_t bin = 0; bin < run.bins; ++bin) {
    for (const PlayedRun::Host& host : run.hosts) {
      csv += time_cell(run, bin) + "," + csv_cell(host.name);
      for (const PlayedRun::Shares& row : host.shares) csv += "," + thousandth_cell(row, bin);
      csv += "\n";
    }
  }
  return csv;
}

std::string training_csv(const PlayedRun& run) {
  std::string csv = "virtual_s,iterations_per_s,loss,mean_staleness,slowest,median,fastest,bound\n";
  for (std::size_t bin = 0; bin < run.bins; ++bin) {
    csv += fmt::format("{},{},{},{},", time_cell(run, bin), figure_cell(run.iterations_per_s, bin),
                       figure_cell(run.loss, bin), figure_cell(run.staleness, bin));
    const std::vector<std::int32_t> clocks = clocks_at(run, bin);
    csv += clocks.empty()
               ? std::string(",,")
               : fmt::format("{},{},{}", clocks.front(), clocks[clocks.size() / 2], clocks.back());
    csv += fmt::format(",{}\n", optional_cell(run.bound_at(bin)));
  }
  return csv;
}

std::string tests_csv(const PlayedRun& run) {
  std::string csv = "virtual_s,iteration,accuracy,loss\n";
  for (const PlayedRun::Test& test : run.tests) {
    csv += fmt::format("{:.6f},{},{},{}\n", test.at_s, test.iteration, optional_cell(test.accuracy),
                       optional_cell(test.loss));
  }
  return csv;
}

}  // namespace taut::cli
