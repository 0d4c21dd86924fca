// Times Caffe's LeNet in the Net: forward, backward and w -= rate * gradient on synthetic images,
// one thread. The peer of torch_lenet.py: the same net, batch and update. Prints the median of the
// repetitions; with --layers also where the time goes.
// Run it pinned to one core: taskset -c 1 build/bench/bench_lenet

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "common/math/filler.hpp"
#include "common/time.hpp"
#include "proto/text.hpp"
#include "worker/backend/cpu_backend.hpp"
#include "worker/layers/net.hpp"

namespace {

using namespace taut;

constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kPixels = 28 * 28;
constexpr float kRate = 0.01F;

constexpr const char* kLenet = R"(
  name: "LeNet"
  layer { name: "data" type: "Data" top: "data" top: "label" }
  layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
    convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
  layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
    pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
  layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
    convolution_param { num_output: 50 kernel_size: 5 weight_filler { type: "xavier" } } }
  layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
    pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
  layer { name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1"
    inner_product_param { num_output: 500 weight_filler { type: "xavier" } } }
  layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
  layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
    inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
)";

[[noreturn]] void give_up(const Error& error) {
  fmt::print(stderr, "bench_lenet: {}\n", error.message);
  std::exit(1);
}

model::Graph lenet() {
  pb::NetParameter net;
  if (const Result<void> parsed = parse_text(kLenet, "lenet", net); !parsed) {
    give_up(parsed.error());
  }
  model::GraphOptions options;
  options.record = labelled_image(1, 28, 28);
  options.batch = kBatch;
  Result<model::Graph> graph = model::build_graph(net, options);
  if (!graph) give_up(graph.error());
  return std::move(graph).value();
}

/// The net, with parameters and the plainest update of them.
class Training {
 public:
  explicit Training(Backend& backend)
      : net_(lenet(), backend, {.seed = 1, .slot = 0}),
        stream_(backend.make_stream()),
        images_(kBatch * kPixels),
        labels_(kBatch),
        forward_times_(net_.layer_count()),
        backward_times_(net_.layer_count()) {
    for (std::size_t i = 0; i < net_.parameters().size(); ++i) {
      const TableSpec& table = net_.parameters()[i];
      values_.push_back(backend.allocate_floats(table.count()));
      gradients_.push_back(backend.allocate_floats(table.count()));
      math::fill(table.filler, 1, table.name, 0, host_view(values_[i].as<float>()));
      net_.bind_value(i, values_[i].as<float>());
      net_.bind_gradient(i, gradients_[i].as<float>());
    }
    math::fill({math::Filler::Kind::kUniform, 0, 1}, 1, "images", 0, images_);
    for (std::size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<float>(i * 7 % 10);
  }

  void step(std::int64_t clock) {
    net_.set_batch(*stream_, {images_, labels_});
    for (std::size_t layer = 0; layer < net_.layer_count(); ++layer) {
      const TimePoint start = steady_now();
      net_.forward(layer, *stream_, Clock(clock));
      forward_times_[layer] += seconds(steady_now() - start);
    }
    for (std::size_t layer = net_.layer_count(); layer-- > 0;) {
      const TimePoint start = steady_now();
      net_.backward(layer, *stream_);
      backward_times_[layer] += seconds(steady_now() - start);
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto value = host_view(values_[i].as<float>());
      const auto gradient = host_view(gradients_[i].as<float>());
      for (std::size_t k = 0; k < value.size(); ++k) value[k] -= kRate * gradient[k];
    }
    ++steps_;
  }

  [[nodiscard]] double loss() { return net_.loss(*stream_); }

  void print_layers() const {
    for (std::size_t layer = 0; layer < net_.layer_count(); ++layer) {
      fmt::print("  layer {}: forward {:.0f} us, backward {:.0f} us\n", layer,
                 1e6 * forward_times_[layer] / steps_, 1e6 * backward_times_[layer] / steps_);
    }
  }

 private:
  Net net_;
  std::unique_ptr<Stream> stream_;
  std::vector<DeviceBuffer> values_;
  std::vector<DeviceBuffer> gradients_;
  std::vector<float> images_;
  std::vector<float> labels_;
  std::vector<double> forward_times_;
  std::vector<double> backward_times_;
  double steps_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  constexpr int kIterations = 100;
  constexpr int kRepetitions = 7;
  const auto backend = make_cpu_backend({.device = DeviceKind::kCpu, .threads = 1});
  Training training(*backend);
  std::int64_t clock = 0;
  const auto run = [&](int iterations) {
    for (int i = 0; i < iterations; ++i) training.step(clock++);
  };

  run(10);
  std::vector<double> rates;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const TimePoint start = steady_now();
    run(kIterations);
    rates.push_back(static_cast<double>(kBatch * kIterations) / seconds(steady_now() - start));
  }
  std::ranges::sort(rates);
  fmt::print(
      "tautline ({}) lenet batch {}: {:.0f} images/s (min {:.0f}, max {:.0f}; last loss {:.4f})\n",
      backend->description(), kBatch, rates[rates.size() / 2], rates.front(), rates.back(),
      training.loss());
  if (count > 1 && std::string_view(arguments[1]) == "--layers") training.print_layers();
  return 0;
}
