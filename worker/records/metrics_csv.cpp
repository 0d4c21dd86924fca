#include "worker/records/metrics_csv.hpp"

#include <fmt/format.h>

#include "common/csv_cell.hpp"

namespace taut::worker {
namespace {

std::string cell(const std::optional<double>& value) {
  return value ? fmt::format("{:.9g}", *value) : "";
}

}  // namespace

std::string metrics_header() {
  return "clock,unix_time_s,wall_s,loss,images,images_per_second,compute_s,wait_s,reads,"
         "staleness_mean,staleness_max,test_accuracy,test_loss,test_s,consensus_error,"
         "neighbour_distance\n";
}

std::string metrics_line(const IntervalFigures& interval, double wall_s, double unix_time_s) {
  return fmt::format("{},{:.6f},{:.6f},{:.9g},{},{:.2f},{:.6f},{:.6f},{},{:.4f},{},,,,{},{}\n",
                     interval.clock.value(), unix_time_s, wall_s, interval.loss, interval.images,
                     interval.images_per_second(), interval.compute_s, interval.wait_s,
                     interval.reads, interval.staleness_mean, interval.staleness_max,
                     cell(interval.from_mean), cell(interval.from_neighbours));
}

std::string metrics_line(const TestFigures& test, double wall_s, double unix_time_s) {
  const std::string accuracy = test.accuracy ? fmt::format("{:.6g}", *test.accuracy) : "";
  return fmt::format("{},{:.6f},{:.6f},,,,,,,,,{},{:.9g},{:.6f},,\n", test.clock.value(),
                     unix_time_s, wall_s, accuracy, test.loss, test.took_s);
}

std::string tests_header() {
  return "clock,unix_time_s,wall_s,output,value\n";
}

std::string tests_lines(const TestFigures& test, double wall_s, double unix_time_s) {
  std::string lines;
  for (const auto& [name, value] : test.outputs) {
    lines += fmt::format("{},{:.6f},{:.6f},{},{:.9g}\n", test.clock.value(), unix_time_s, wall_s,
                         csv_cell(name), value);
  }
  return lines;
}

}  // namespace taut::worker
