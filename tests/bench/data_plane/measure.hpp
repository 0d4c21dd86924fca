#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/time.hpp"

namespace taut::bench {

/// CPU seconds of a process.
struct CpuTime {
  double all = 0;
  double io = 0;  // of that, in the threads of ZeroMQ that send, receive and encrypt

  [[nodiscard]] double rest() const { return all - io; }
  CpuTime& operator+=(const CpuTime& other) {
    all += other.all;
    io += other.io;
    return *this;
  }
  [[nodiscard]] friend CpuTime operator-(const CpuTime& end, const CpuTime& begin) {
    return {end.all - begin.all, end.io - begin.io};
  }
};

/// What one pattern at one size gave. Rates are payload, one way.
struct Sample {
  std::string pattern;  // push, pull, push+pull, round trip
  std::uint64_t table_bytes = 0;
  double gigabytes = 0;  // moved one way in all
  double wall_s = 0;
  CpuTime cpu = {};         // of this process
  CpuTime server_cpu = {};  // of all servers together, over the same time
  double median_us = 0;     // round trips only

  [[nodiscard]] double rate() const { return wall_s > 0 ? gigabytes / wall_s : 0; }
};

[[nodiscard]] inline nlohmann::json to_json(const Sample& sample) {
  return {{"pattern", sample.pattern},
          {"table_bytes", sample.table_bytes},
          {"gigabytes", sample.gigabytes},
          {"wall_s", sample.wall_s},
          {"cpu_s", sample.cpu.all},
          {"io_cpu_s", sample.cpu.io},
          {"server_cpu_s", sample.server_cpu.all},
          {"server_io_cpu_s", sample.server_cpu.io},
          {"median_us", sample.median_us}};
}

[[nodiscard]] inline Sample sample_of(const nlohmann::json& json) {
  return {json.at("pattern"),
          json.at("table_bytes"),
          json.at("gigabytes"),
          json.at("wall_s"),
          {json.at("cpu_s"), json.at("io_cpu_s")},
          {json.at("server_cpu_s"), json.at("server_io_cpu_s")},
          json.at("median_us")};
}

[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// CPU time of a process so far; zeros when it has gone.
[[nodiscard]] CpuTime cpu_time_of(int pid);
/// That of this process.
[[nodiscard]] CpuTime cpu_time();

}  // namespace taut::bench
