// Times a character LSTM in the Net: embedding, one LSTM of 256, inner product and softmax loss
// over 50 steps of 32 streams; forward, backward and w -= rate * gradient on random numbers, one
// thread. The peer of torch_lstm.py: the same net, batch and update. Prints the median of the
// repetitions; with --layers also where the time goes.
// Run it pinned to one core: taskset -c 1 build/bench/bench_lstm

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "tests/bench/timed_training.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace {

using namespace taut;

constexpr std::size_t kTokens = 50 * 32;
constexpr float kRate = 0.01F;

constexpr const char* kNet = R"(
  name: "char_lstm"
  layer { name: "in" type: "Input" top: "data" top: "label"
    input_param { shape { dim: 50 dim: 32 } } }
  layer { name: "embed" type: "Embed" bottom: "data" top: "embed"
    embed_param { input_dim: 65 num_output: 256 bias_term: false
                  weight_filler { type: "gaussian" } } }
  layer { name: "lstm" type: "LSTM" bottom: "embed" top: "lstm"
    recurrent_param { num_output: 256 weight_filler { type: "xavier" } } }
  layer { name: "scores" type: "InnerProduct" bottom: "lstm" top: "scores"
    inner_product_param { num_output: 65 axis: 2 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss"
    softmax_param { axis: 2 } }
)";

/// Tokens and labels.
std::vector<std::vector<float>> synthetic_batch() {
  std::vector<std::vector<float>> batch(2);
  for (std::size_t i = 0; i < kTokens; ++i) {
    batch[0].push_back(static_cast<float>(i * 7919 % 65));
    batch[1].push_back(static_cast<float>(i * 104729 % 65));
  }
  return batch;
}

}  // namespace

int main(int count, char** arguments) {
  const auto backend = make_cpu_backend({.device = DeviceKind::kCpu, .threads = 1});
  bench::TimedTraining training(bench::graph_of(kNet, {}), *backend, synthetic_batch(), kRate);
  const std::vector<double> rates = bench::measure_rates(training, 3, 20, 7, kTokens);
  fmt::print(
      "tautline ({}) LSTM-256, 50 steps, batch 32: {:.0f} tokens/s (min {:.0f}, max {:.0f}; last "
      "loss {:.4f})\n",
      backend->description(), rates[rates.size() / 2], rates.front(), rates.back(),
      training.loss());
  if (count > 1 && std::string_view(arguments[1]) == "--layers") training.print_layers();
  return 0;
}
