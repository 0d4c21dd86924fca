// Times a character LSTM in the Net: embedding, one LSTM of 256, inner product and softmax loss over 50
// steps of 32 streams; forward, backward and w -= rate * gradient on random numbers, one thread. The
// peer of torch_lstm.py: the same net, batch and update. Prints the median of the repetitions; with
// --layers also where the time goes.
// Run it pinned to one core: taskset -c 1 build/bench/bench_lstm

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

[[noreturn]] void give_up(const Error& error) {
  fmt::print(stderr, "bench_lstm: {}\n", error.message);
  std::exit(1);
}

model::Graph graph_of_net() {
  pb::NetParameter net;
  if (const Result<void> parsed = parse_text(kNet, "char_lstm", net); !parsed) {
    give_up(parsed.error());
  }
  Result<model::Graph> graph = model::build_graph(net, {});
  if (!graph) give_up(graph.error());
  return std::move(graph).value();
}

/// The net, with parameters and the plainest update of them.
class Training {
 public:
  explicit Training(Backend& backend)
      : net_(graph_of_net(), backend, {.seed = 1, .slot = 0}),
        stream_(backend.make_stream()),
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
    for (std::size_t i = 0; i < kTokens; ++i) {
      tokens_.push_back(static_cast<float>(i * 7919 % 65));
      labels_.push_back(static_cast<float>(i * 104729 % 65));
    }
  }

  void step(std::int64_t clock) {
    net_.set_batch(*stream_, {tokens_, labels_});
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
  std::vector<float> tokens_;
  std::vector<float> labels_;
  std::vector<double> forward_times_;
  std::vector<double> backward_times_;
  double steps_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
  constexpr int kIterations = 20;
  constexpr int kRepetitions = 7;
  const auto backend = make_cpu_backend({.device = DeviceKind::kCpu, .threads = 1});
  Training training(*backend);
  std::int64_t clock = 0;
  const auto run = [&](int iterations) {
    for (int i = 0; i < iterations; ++i) training.step(clock++);
  };

  run(3);
  std::vector<double> rates;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    const TimePoint start = steady_now();
    run(kIterations);
    rates.push_back(static_cast<double>(kTokens * kIterations) / seconds(steady_now() - start));
  }
  std::ranges::sort(rates);
  fmt::print(
      "tautline ({}) LSTM-256, 50 steps, batch 32: {:.0f} tokens/s (min {:.0f}, max {:.0f}; last "
      "loss {:.4f})\n",
      backend->description(), rates[rates.size() / 2], rates.front(), rates.back(),
      training.loss());
  if (count > 1 && std::string_view(arguments[1]) == "--layers") training.print_layers();
  return 0;
}
