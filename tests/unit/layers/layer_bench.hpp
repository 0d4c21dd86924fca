#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/engine/backend.hpp"
#include "worker/layers/layer.hpp"
#include "worker/model/graph.hpp"

namespace taut::test {

using Values = std::vector<float>;

[[nodiscard]] std::size_t count_of(const Extents& shape);

/// `count` numbers in random order, `gap` apart and none nearer than gap / 2 to zero: no step below
/// gap / 2 crosses a kink of ReLU or changes a maximum.
[[nodiscard]] Values spaced_values(std::size_t count, std::uint64_t seed, float gap);

/// Uniform in [-1, 1).
[[nodiscard]] Values random_values(std::size_t count, std::uint64_t seed);

/// The CPU backend with one compute thread, or more.
[[nodiscard]] std::unique_ptr<Backend> cpu(int threads = 1);
/// The backend that a test program is about: the CPU's, or in tests/gpu the CUDA device's.
[[nodiscard]] std::shared_ptr<Backend> tested_backend(int threads);

/// Reads a net and settles it. Throws std::runtime_error with the refusal's message.
[[nodiscard]] model::Graph settle(const std::string& net, pb::Phase phase,
                                  const model::GraphOptions& options = {});

/// One layer on the tested backend, with its values in Caffe's order on the host. Every output is
/// poisoned with NaN before it is written.
class LayerBench {
 public:
  struct Setup {
    pb::Phase phase = pb::TRAIN;
    std::uint64_t seed = 1;
    std::uint32_t slot = 0;
    std::uint32_t index = 0;
    bool in_place = false;
    int threads = 1;
    int tops = 1;
    std::shared_ptr<Backend> backend = nullptr;  // nullptr: tested_backend()
    std::vector<std::size_t> unread = {};        // tops that no loss reads: without a gradient
  };

  /// definition  the fields of one layer, without bottoms and tops
  LayerBench(const std::string& definition, std::vector<Extents> bottoms, const Setup& setup);
  explicit LayerBench(const std::string& definition, std::vector<Extents> bottoms)
      : LayerBench(definition, std::move(bottoms), Setup()) {}

  void forward(Clock clock = Clock(0));
  /// From top_gradients; follows a forward.
  void backward();

  std::vector<Extents> bottom_shapes, top_shapes, parameter_shapes;
  std::vector<Values> bottoms, tops, parameters;
  std::vector<Values> bottom_gradients, top_gradients, parameter_gradients;
  /// Which bottoms have a gradient; labels have none.
  std::vector<bool> differentiable;

 private:
  [[nodiscard]] Ports ports() const { return {bottom_tensors_, top_tensors_, parameter_tensors_}; }
  [[nodiscard]] DeviceSpan<float> new_floats(std::size_t count);
  void poison(DeviceSpan<float> span);

  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  model::Graph graph_;
  bool in_place_;
  std::unique_ptr<Layer> layer_;
  std::vector<DeviceBuffer> memory_;
  std::vector<Tensor> bottom_tensors_, top_tensors_;
  std::vector<Parameter> parameter_tensors_;
  std::vector<DeviceSpan<float>> parameter_values_;
};

}  // namespace taut::test
