#include "tests/unit/plan/net_traces.hpp"

#include <string>
#include <utility>
#include <vector>

namespace taut::test {
namespace {

constexpr auto kRead = AccessMode::kRead;
constexpr auto kWrite = AccessMode::kWrite;
constexpr auto kReadWrite = AccessMode::kReadWrite;

/// Numbers buffers and steps; sizes are in floats.
class TraceMaker {
 public:
  std::size_t buffer(std::string name, std::uint64_t floats, BufferKind kind, Lifetime lifetime) {
    trace_.buffers.push_back({std::move(name), Bytes(4 * floats), kind, lifetime});
    return trace_.buffers.size() - 1;
  }
  void step(std::string name, std::vector<Access> accesses) {
    trace_.steps.push_back({std::move(name), std::move(accesses)});
  }
  AccessTrace finish() { return std::move(trace_); }

 private:
  AccessTrace trace_;
};

/// A layer whose top has `top` floats for each image; relu, in place, follows where it has weights.
struct Layer {
  std::string name;
  std::uint64_t top = 0;
  std::uint64_t weights = 0;
  std::uint64_t columns = 0;  // of im2col, for one image
};

/// Buffers of one layer; `bottom` ones are the layer's before.
struct Built {
  std::size_t bottom = 0, bottom_gradient = 0, top = 0, top_gradient = 0;
  std::size_t weights = 0, gradient = 0, momentum = 0, workspace = 0;
};

class ChainMaker {
 public:
  ChainMaker(std::uint64_t batch, std::uint64_t image) : batch_(batch) {
    data_ = maker_.buffer("data", batch * image, BufferKind::kActivation, Lifetime::kIteration);
    maker_.step("data", {{data_, kWrite}});
  }

  AccessTrace make(const std::vector<Layer>& layers) {
    std::vector<Built> built;
    for (const Layer& layer : layers) {
      built.push_back(declare(layer, built.empty() ? nullptr : &built.back()));
      forward(layer, built.back());
    }
    maker_.step("loss", {{built.back().top, kRead}, {built.back().top_gradient, kWrite}});
    for (std::size_t i = layers.size(); i-- > 0;) backward(layers[i], built[i], i == 0);
    return maker_.finish();
  }

 private:
  Built declare(const Layer& layer, const Built* before) {
    const auto activation = [&](const std::string& name) {
      return maker_.buffer(name, batch_ * layer.top, BufferKind::kActivation, Lifetime::kIteration);
    };
    Built built;
    built.bottom = before != nullptr ? before->top : data_;
    built.bottom_gradient = before != nullptr ? before->top_gradient : data_;
    built.top = activation(layer.name);
    built.top_gradient = activation(layer.name + "_diff");
    if (layer.weights > 0) {
      built.weights = maker_.buffer(layer.name + "_w", layer.weights, BufferKind::kParameter,
                                    Lifetime::kForever);
      built.momentum = maker_.buffer(layer.name + "_momentum", layer.weights,
                                     BufferKind::kParameter, Lifetime::kForever);
      built.gradient = maker_.buffer(layer.name + "_w_diff", layer.weights, BufferKind::kGradient,
                                     Lifetime::kIteration);
    }
    if (layer.columns > 0) {
      built.workspace = maker_.buffer(layer.name + "_col", layer.columns, BufferKind::kWorkspace,
                                      Lifetime::kStep);
    }
    return built;
  }

  static void add_parameters(const Layer& layer, const Built& built, std::vector<Access>& step) {
    if (layer.weights > 0) step.push_back({built.weights, kRead});
    if (layer.columns > 0) step.push_back({built.workspace, kWrite});
  }

  void forward(const Layer& layer, const Built& built) {
    std::vector<Access> step = {{built.bottom, kRead}, {built.top, kWrite}};
    add_parameters(layer, built, step);
    maker_.step(layer.name, step);
    if (layer.weights > 0) maker_.step(layer.name + " relu", {{built.top, kReadWrite}});
  }

  void backward(const Layer& layer, const Built& built, bool first) {
    if (layer.weights > 0) {
      maker_.step(layer.name + " relu backward",
                  {{built.top, kRead}, {built.top_gradient, kReadWrite}});
    }
    std::vector<Access> step = {{built.bottom, kRead}, {built.top_gradient, kRead}};
    if (layer.weights == 0) step.push_back({built.top, kRead});  // pooling
    if (!first) step.push_back({built.bottom_gradient, kWrite});
    if (layer.weights > 0) step.push_back({built.gradient, kWrite});
    add_parameters(layer, built, step);
    maker_.step(layer.name + " backward", step);
    if (layer.weights == 0) return;
    maker_.step(
        layer.name + " update",
        {{built.weights, kReadWrite}, {built.momentum, kReadWrite}, {built.gradient, kRead}});
  }

  std::uint64_t batch_;
  TraceMaker maker_;
  std::size_t data_ = 0;
};

}  // namespace

AccessTrace alexnet_trace(std::uint64_t batch) {
  return ChainMaker(batch, 3 * 227 * 227)
      .make({{"conv1", 96 * 55 * 55, 96 * 363 + 96, 363 * 55 * 55},
             {"norm1", 96 * 55 * 55},
             {"pool1", 96 * 27 * 27},
             {"conv2", 256 * 27 * 27, 256 * 48 * 25 + 256, 2400 * 27 * 27},
             {"norm2", 256 * 27 * 27},
             {"pool2", 256 * 13 * 13},
             {"conv3", 384 * 13 * 13, 384 * 256 * 9 + 384, 2304 * 13 * 13},
             {"conv4", 384 * 13 * 13, 384 * 192 * 9 + 384, 3456 * 13 * 13},
             {"conv5", 256 * 13 * 13, 256 * 192 * 9 + 256, 3456 * 13 * 13},
             {"pool5", 256 * 6 * 6},
             {"fc6", 4096, 9216 * 4096 + 4096},
             {"fc7", 4096, 4096 * 4096 + 4096},
             {"fc8", 1000, 4096 * 1000 + 1000}});
}

AccessTrace vgg16_trace(std::uint64_t batch) {
  std::vector<Layer> layers;
  std::uint64_t channels = 3;
  std::uint64_t side = 224;
  const std::vector<std::pair<std::uint64_t, int>> blocks = {
      {64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    const auto [outputs, convolutions] = blocks[block];
    const std::string number = std::to_string(block + 1);
    for (int i = 1; i <= convolutions; ++i) {
      layers.push_back({"conv" + number + "_" + std::to_string(i), outputs * side * side,
                        outputs * channels * 9 + outputs, channels * 9 * side * side});
      channels = outputs;
    }
    side /= 2;
    layers.push_back({"pool" + number, channels * side * side});
  }
  layers.push_back({"fc6", 4096, 25088 * 4096 + 4096});
  layers.push_back({"fc7", 4096, 4096 * 4096 + 4096});
  layers.push_back({"fc8", 1000, 4096 * 1000 + 1000});
  return ChainMaker(batch, 3 * 224 * 224).make(layers);
}

AccessTrace lstm_trace(std::uint64_t batch, std::uint64_t hidden, std::size_t time_steps) {
  TraceMaker maker;
  const std::uint64_t state = batch * hidden;
  const std::uint64_t weights = 8 * hidden * hidden + 4 * hidden;
  const auto activation = [&](const std::string& name, std::uint64_t floats) {
    return maker.buffer(name, floats, BufferKind::kActivation, Lifetime::kIteration);
  };
  const auto w = maker.buffer("w", weights, BufferKind::kParameter, Lifetime::kForever);
  const auto momentum =
      maker.buffer("momentum", weights, BufferKind::kParameter, Lifetime::kForever);
  const auto dw = maker.buffer("dw", weights, BufferKind::kGradient, Lifetime::kIteration);
  const auto dh = activation("dh", state);
  const auto dc = activation("dc", state);
  const auto dgates = maker.buffer("dgates", 4 * state, BufferKind::kWorkspace, Lifetime::kStep);
  std::vector<std::size_t> x, gates, c, h;
  h.push_back(activation("h_start", state));
  c.push_back(activation("c_start", state));
  maker.step("start", {{h[0], kWrite}, {c[0], kWrite}});
  for (std::size_t t = 0; t < time_steps; ++t) {
    const std::string number = std::to_string(t);
    x.push_back(activation("x" + number, state));
    gates.push_back(activation("gates" + number, 4 * state));
    c.push_back(activation("c" + number, state));
    h.push_back(activation("h" + number, state));
    maker.step("input " + number, {{x[t], kWrite}});
    maker.step("gates " + number, {{x[t], kRead}, {h[t], kRead}, {w, kRead}, {gates[t], kWrite}});
    maker.step("state " + number,
               {{gates[t], kReadWrite}, {c[t], kRead}, {c[t + 1], kWrite}, {h[t + 1], kWrite}});
  }
  maker.step("loss", {{h[time_steps], kRead}, {dh, kWrite}, {dc, kWrite}, {dw, kWrite}});
  for (std::size_t t = time_steps; t-- > 0;) {
    maker.step("backward " + std::to_string(t), {{dh, kReadWrite},
                                                 {dc, kReadWrite},
                                                 {dgates, kReadWrite},
                                                 {gates[t], kRead},
                                                 {c[t], kRead},
                                                 {c[t + 1], kRead},
                                                 {x[t], kRead},
                                                 {h[t], kRead},
                                                 {w, kRead},
                                                 {dw, kReadWrite}});
  }
  maker.step("update", {{w, kReadWrite}, {momentum, kReadWrite}, {dw, kRead}});
  return maker.finish();
}

}  // namespace taut::test
