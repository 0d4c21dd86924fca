// Times Caffe's LeNet in the Net: forward, backward and w -= rate * gradient on synthetic images,
// one thread. The peer of torch_lenet.py: the same net, batch and update. Prints the median of the
// repetitions; with --layers also where the time goes.
// Run it pinned to one core: taskset -c 1 build/bench/bench_lenet

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "common/math/filler.hpp"
#include "tests/bench/timed_training.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace {

using namespace taut;

constexpr std::size_t kBatch = 64;
constexpr std::size_t kPixels = 28 * 28;
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

std::vector<std::vector<float>> synthetic_batch() {
  std::vector<std::vector<float>> batch{std::vector<float>(kBatch * kPixels),
                                        std::vector<float>(kBatch)};
  math::fill({math::Filler::Kind::kUniform, 0, 1}, 1, "images", 0, batch[0]);
  for (std::size_t i = 0; i < kBatch; ++i) batch[1][i] = static_cast<float>(i * 7 % 10);
  return batch;
}

}  // namespace

int main(int count, char** arguments) {
  const auto backend = make_cpu_backend({.device = DeviceKind::kCpu, .threads = 1});
  model::GraphOptions options;
  options.record = labelled_image(1, 28, 28);
  options.batch = kBatch;
  bench::TimedTraining training(bench::graph_of(kLenet, options), *backend, synthetic_batch(),
                                kRate);
  const std::vector<double> rates = bench::measure_rates(training, 10, 100, 7, kBatch);
  fmt::print(
      "tautline ({}) lenet batch {}: {:.0f} images/s (min {:.0f}, max {:.0f}; last loss {:.4f})\n",
      backend->description(), kBatch, rates[rates.size() / 2], rates.front(), rates.back(),
      training.loss());
  if (count > 1 && std::string_view(arguments[1]) == "--layers") training.print_layers();
  return 0;
}
