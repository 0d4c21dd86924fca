#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "worker/engine/backend.hpp"
#include "worker/layers/net.hpp"
#include "worker/model/graph.hpp"

namespace taut::bench {

/// A net with its own parameters and the plainest update of them, w -= rate * gradient, over one
/// batch again and again; it keeps how long each layer takes.
class TimedTraining {
 public:
  /// batch   one vector for each blob that is fed
  /// REQUIRES: a backend that shares the host's memory
  TimedTraining(const model::Graph& graph, Backend& backend, std::vector<std::vector<float>> batch,
                float rate);

  void forward_backward();
  /// Running statistics are taken over as the net has made them.
  void update();
  void step() {
    forward_backward();
    update();
  }

  [[nodiscard]] double loss() { return net_.loss(*stream_); }
  [[nodiscard]] std::span<const TableSpec> tables() const { return net_.parameters(); }
  [[nodiscard]] std::span<const float> values(std::size_t table) const;
  [[nodiscard]] std::span<const float> gradients(std::size_t table) const;
  [[nodiscard]] const std::vector<std::vector<float>>& batch() const { return batch_; }

  /// A line for each layer: its forward's and its backward's mean time.
  void print_layers() const;

 private:
  model::Graph graph_;
  Net net_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::vector<float>> batch_;
  float rate_;
  std::vector<DeviceBuffer> values_;
  std::vector<DeviceBuffer> gradients_;
  std::vector<double> forward_times_;
  std::vector<double> backward_times_;
  std::int64_t steps_ = 0;
};

/// Items per second of each repetition, ascending.
/// items  of one step
[[nodiscard]] std::vector<double> measure_rates(TimedTraining& training, int warm_up,
                                                int iterations, int repetitions, double items);

/// The net of a text or of a parsed file, in its training phase. Ends the program with a line where
/// it cannot be built.
[[nodiscard]] model::Graph graph_of(std::string_view text, const model::GraphOptions& options);
[[nodiscard]] model::Graph graph_of(const pb::NetParameter& net,
                                    const model::GraphOptions& options);

/// Prints why the program cannot continue, and ends it with 1.
[[noreturn]] void give_up(const std::string& message);

}  // namespace taut::bench
