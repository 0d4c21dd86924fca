#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace taut::lab {

/// This machine's time since construction.
class Stopwatch {
 public:
  [[nodiscard]] double microseconds() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

/// What a training in the lab took on this machine: its processes for messages, and the first
/// worker's loop for each layer.
struct Meter {
  struct Sample {
    std::uint64_t bytes = 0;
    double microseconds = 0;
  };
  using Samples = std::vector<Sample>;
  Samples shard;   // one message and its answers
  Samples client;  // what the client did at once
  /// By layer; includes the loop around it, and for the first forward the making of the batch.
  std::vector<std::vector<double>> forward_us;
  std::vector<std::vector<double>> backward_us;

  static void note(std::vector<std::vector<double>>& layers, std::size_t layer,
                   double microseconds) {
    if (layers.size() <= layer) layers.resize(layer + 1);
    layers[layer].push_back(microseconds);
  }
  static void note(Samples& samples, std::uint64_t bytes, double microseconds) {
    if (bytes > 0) samples.push_back({bytes, microseconds});
  }
};

/// The cost of messages, as a line.
struct MessageCost {
  double each_us = 0;
  double us_per_mib = 0;
};

/// Through the medians of the smaller half of the messages and of the largest eighth: a few that
/// the system interrupted do not count. Sizes that differ by less than 16 KiB have no slope: a few
/// microseconds of noise would make a MiB of them cost a second. REQUIRES: there are samples.
[[nodiscard]] MessageCost cost_of(Meter::Samples samples);

}  // namespace taut::lab
