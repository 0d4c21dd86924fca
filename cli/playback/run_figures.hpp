#pragma once

#include <string>
#include <vector>

#include "cli/playback/played_run.hpp"

namespace taut::cli {

/// A figure of a run.
struct Figure {
  std::string name;   // of its file: NAME.svg
  std::string title;  // what it shows
  std::string svg;
};

/// The figures of a run; those without data are left out.
[[nodiscard]] std::vector<Figure> figures_of(const PlayedRun& run);

/// The numbers that figures show.
struct RunTable {
  std::string name;  // of its file: NAME.csv
  std::string csv;
};

/// The tables of a run. Times are in virtual seconds, at the end of each bin.
[[nodiscard]] std::vector<RunTable> tables_of(const PlayedRun& run);

/// A column for each worker, or link; for hosts, a line for each host and time.
[[nodiscard]] std::string clocks_csv(const PlayedRun& run);
[[nodiscard]] std::string links_csv(const PlayedRun& run);
[[nodiscard]] std::string hosts_csv(const PlayedRun& run);
/// Iterations/s, loss, mean staleness, and the clocks of the slowest, median and fastest worker.
[[nodiscard]] std::string training_csv(const PlayedRun& run);
[[nodiscard]] std::string tests_csv(const PlayedRun& run);

/// The clocks of the workers that are members in one bin, ascending.
[[nodiscard]] std::vector<std::int32_t> clocks_at(const PlayedRun& run, std::size_t bin);

}  // namespace taut::cli
