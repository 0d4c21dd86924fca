#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace taut::lab {

/// The machine's time since it was made.
class Stopwatch {
 public:
  [[nodiscard]] double microseconds() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began_)
        .count();
  }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

/// What messages took on this machine, of the processes that handled them.
struct Meter {
  struct Sample {
    std::uint64_t bytes = 0;
    double microseconds = 0;
  };
  using Samples = std::vector<Sample>;
  Samples shard;   // one message and its answers
  Samples client;  // what the client did at once

  static void note(Samples& samples, std::uint64_t bytes, double microseconds) {
    if (bytes > 0) samples.push_back({bytes, microseconds});
  }
};

/// The cost of messages as a line.
struct MessageCost {
  double each_us = 0;
  double us_per_mib = 0;
};

/// Through the medians of the smaller half of the messages and of the largest eighth: a few that
/// the system interrupted do not count. REQUIRES: there are samples.
[[nodiscard]] MessageCost cost_of(Meter::Samples samples);

}  // namespace taut::lab
