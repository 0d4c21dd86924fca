#pragma once

#include <optional>
#include <string>

#include "worker/records/clock_figures.hpp"

namespace taut::worker {

/// The first line of a metrics.csv.
[[nodiscard]] std::string metrics_header();

/// One line of a metrics.csv: the figures since the previous line. Cells of a test are empty in a
/// line about training, and vice versa.
/// wall_s       since this worker opened the job
/// unix_time_s  since 1970, to align several workers' lines
[[nodiscard]] std::string metrics_line(const IntervalFigures& interval, double wall_s,
                                       double unix_time_s);
[[nodiscard]] std::string metrics_line(const TestFigures& test, double wall_s, double unix_time_s);

/// The first line of a tests.csv, and a line for each output of a test.
[[nodiscard]] std::string tests_header();
[[nodiscard]] std::string tests_lines(const TestFigures& test, double wall_s, double unix_time_s);

}  // namespace taut::worker
