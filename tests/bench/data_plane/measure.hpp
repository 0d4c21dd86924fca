#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/time.hpp"

namespace taut::bench {

/// What one pattern at one size gave. Rates are payload, one way.
struct Sample {
  std::string pattern;  // push, pull, push+pull, round trip
  std::uint64_t table_bytes = 0;
  double gigabytes = 0;  // moved one way in all
  double wall_s = 0;
  double cpu_s = 0;         // of this process
  double server_cpu_s = 0;  // of all servers together, over the same time
  double median_us = 0;     // round trips only

  [[nodiscard]] double rate() const { return wall_s > 0 ? gigabytes / wall_s : 0; }
};

[[nodiscard]] inline nlohmann::json to_json(const Sample& sample) {
  return {{"pattern", sample.pattern},     {"table_bytes", sample.table_bytes},
          {"gigabytes", sample.gigabytes}, {"wall_s", sample.wall_s},
          {"cpu_s", sample.cpu_s},         {"server_cpu_s", sample.server_cpu_s},
          {"median_us", sample.median_us}};
}

[[nodiscard]] inline Sample sample_of(const nlohmann::json& json) {
  return {json.at("pattern"), json.at("table_bytes"),  json.at("gigabytes"), json.at("wall_s"),
          json.at("cpu_s"),   json.at("server_cpu_s"), json.at("median_us")};
}

[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// CPU seconds of this process so far.
[[nodiscard]] double cpu_seconds();

/// CPU seconds of another process so far; 0 when it has gone.
[[nodiscard]] double cpu_seconds_of(int pid);

}  // namespace taut::bench
