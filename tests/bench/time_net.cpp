// Times a net's training phase on one synthetic batch, on a CUDA device or the CPU, with momentum
// SGD and without a server. What tests/bench/gpu_nets compares with PyTorch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/math/filler.hpp"
#include "common/time.hpp"
#include "proto/config/text.hpp"
#include "worker/engine/backend.hpp"
#include "worker/layers/net.hpp"

namespace {

using namespace taut;

struct Options {
  std::string net;
  std::int64_t channels = 3;
  std::int64_t size = 224;
  std::int64_t batch = 16;
  int iterations = 10;
  int repetitions = 3;
  int threads = 1;
  DeviceKind device = DeviceKind::kCuda;
  Precision precision = Precision::kFloat32;
  bool graphs = true;
  std::string layers;  // a file for the layers' times; empty: they are not taken
};

[[noreturn]] void give_up(const std::string& message) {
  fmt::print(stderr, "time_net: {}\n", message);
  std::exit(1);
}

/// The training phase, without what is random: nothing is dropped.
model::Graph read_graph(const Options& options) {
  pb::NetParameter net;
  if (const Result<void> read = read_text(options.net, net); !read) give_up(read.error().message);
  for (pb::LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() == "Dropout") layer.mutable_dropout_param()->set_dropout_ratio(0);
    layer.clear_transform_param();
  }
  model::GraphOptions graph_options;
  graph_options.record = labelled_image(options.channels, options.size, options.size);
  graph_options.batch = options.batch;
  Result<model::Graph> graph = model::build_graph(net, graph_options);
  if (!graph) give_up(graph.error().message);
  return std::move(graph).value();
}

/// The net, its parameters, and a batch that stays on the device.
class Training {
 public:
  Training(Backend& backend, const Options& options)
      : Training(backend, options, read_graph(options)) {}

  Training(Backend& backend, const Options& options, const model::Graph& graph)
      : backend_(backend),
        net_(graph, backend, {.seed = 1, .slot = 0}),
        stream_(backend.make_stream()) {
    for (const model::Node& node : graph.nodes) names_.push_back(node.definition.name());
    for (std::size_t i = 0; i < net_.parameters().size(); ++i) {
      const TableSpec& table = net_.parameters()[i];
      Table& own = tables_.emplace_back();
      own.value = backend.allocate_floats(table.count());
      own.gradient = backend.allocate_floats(table.count());
      own.velocity = backend.allocate_floats(table.count());
      std::vector<float> first(table.count());
      math::fill(table.filler, 1, table.name, 0, first);
      backend.copy_to_device(*stream_, first, own.value.as<float>());
      backend.fill(*stream_, own.velocity.as<float>(), 0);
      stream_->finish();
      net_.bind_value(i, own.value.as<float>());
      net_.bind_gradient(i, own.gradient.as<float>());
    }
    std::vector<float> images(
        static_cast<std::size_t>(options.batch * options.channels * options.size * options.size));
    std::vector<float> labels(static_cast<std::size_t>(options.batch));
    math::fill({math::Filler::Kind::kGaussian, 0, 50}, 1, "images", 0, images);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<float>(i * 7 % 10);
    net_.set_batch(*stream_, {images, labels});
    stream_->finish();
  }

  /// Queues one clock.
  void step(std::int64_t clock) {
    for (std::size_t i = 0; i < net_.layer_count(); ++i) net_.forward(i, *stream_, Clock(clock));
    for (std::size_t i = net_.layer_count(); i-- > 0;) net_.backward(i, *stream_);
    DeviceUpdate update{.kind = math::RuleKind::kMomentum, .step = {}, .scale = 1};
    update.step.rate = 1e-4F;
    update.step.momentum = 0.9F;
    for (std::size_t i = 0; i < tables_.size(); ++i) {
      const DeviceSpan<float> value = tables_[i].value.as<float>();
      const DeviceSpan<float> velocity = tables_[i].velocity.as<float>();
      if (net_.parameters()[i].kind == TableKind::kAveraged) {
        backend_.copy(*stream_, tables_[i].gradient.as<float>(), value);
        continue;
      }
      const DeviceGradient gradient{tables_[i].gradient.as<float>(), 1};
      backend_.apply_update(*stream_, update, std::span(&gradient, 1), value,
                            std::span(&velocity, 1));
    }
  }

  /// One clock, layer by layer, each waited for: adds to each layer's times in seconds.
  void time_layers(std::int64_t clock, std::vector<double>& forward,
                   std::vector<double>& backward) {
    const auto timed = [&](double& into, const auto& work) {
      const TimePoint begin = steady_now();
      work();
      stream_->finish();
      into += seconds(steady_now() - begin);
    };
    for (std::size_t i = 0; i < net_.layer_count(); ++i) {
      timed(forward[i], [&] { net_.forward(i, *stream_, Clock(clock)); });
    }
    for (std::size_t i = net_.layer_count(); i-- > 0;) {
      timed(backward[i], [&] { net_.backward(i, *stream_); });
    }
  }

  [[nodiscard]] const Net& net() const { return net_; }
  [[nodiscard]] const std::vector<std::string>& layer_names() const { return names_; }
  void finish() { stream_->finish(); }
  [[nodiscard]] double loss() { return net_.loss(*stream_); }

 private:
  struct Table {
    DeviceBuffer value, gradient, velocity;
  };
  Backend& backend_;
  Net net_;
  std::unique_ptr<Stream> stream_;
  std::vector<Table> tables_;
  std::vector<std::string> names_;  // of the layers
};

/// name, parameter_bytes, forward_s and backward_s of each layer, in the net's order, as JSON.
void write_layers(Training& training, std::int64_t clock, int clocks, const std::string& file) {
  const Net& net = training.net();
  std::vector<double> forward(net.layer_count());
  std::vector<double> backward(net.layer_count());
  for (int i = 0; i < clocks; ++i) training.time_layers(clock + i, forward, backward);
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t i = 0; i < net.layer_count(); ++i) {
    std::size_t bytes = 0;
    for (const std::size_t parameter : net.parameters_of(i)) {
      bytes += net.parameters()[parameter].count() * sizeof(float);
    }
    list.push_back({{"name", training.layer_names()[i]},
                    {"parameter_bytes", bytes},
                    {"forward_s", forward[i] / clocks},
                    {"backward_s", backward[i] / clocks}});
  }
  std::ofstream(file) << list.dump(2) << "\n";
}

void run(const Options& options) {
  Result<BackendChoice> choice = make_backend(
      {.device = options.device, .threads = options.threads, .cuda_graphs = options.graphs});
  if (!choice) give_up(choice.error().message);
  Backend& backend = *choice.value().backend;
  backend.set_math({.precision = options.precision});
  Training training(backend, options);
  std::int64_t clock = 0;
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i) training.step(clock++);
    training.finish();
  };
  // In the first ones libraries load what they need, and what repeats is recorded.
  steps(options.device == DeviceKind::kCpu ? 1 : 10);
  std::vector<double> rates;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    const TimePoint start = steady_now();
    steps(options.iterations);
    rates.push_back(static_cast<double>(options.batch * options.iterations) /
                    seconds(steady_now() - start));
  }
  std::ranges::sort(rates);
  fmt::print("tautline ({}) {} batch {}: {:.2f} images/s (min {:.2f}, max {:.2f}; loss {:.4f})\n",
             backend.description(), std::filesystem::path(options.net).stem().string(),
             options.batch, rates[rates.size() / 2], rates.front(), rates.back(), training.loss());
  if (!options.layers.empty()) {
    write_layers(training, clock, options.iterations, options.layers);
  }
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  CLI::App app("Times a net's training phase on one synthetic batch.");
  app.add_option("net", options.net, "the model definition")->required();
  app.add_option("--channels", options.channels, "of the images");
  app.add_option("--size", options.size, "of the images' sides");
  app.add_option("--batch", options.batch);
  app.add_option("--iterations", options.iterations, "in one repetition");
  app.add_option("--repetitions", options.repetitions);
  app.add_option("--threads", options.threads, "of the CPU");
  const std::map<std::string, DeviceKind> devices{{"cpu", DeviceKind::kCpu},
                                                  {"cuda", DeviceKind::kCuda}};
  app.add_option("--device", options.device, "cuda or cpu")
      ->transform(CLI::CheckedTransformer(devices));
  const std::map<std::string, Precision> precisions{{"float32", Precision::kFloat32},
                                                    {"tf32", Precision::kTf32},
                                                    {"bfloat16", Precision::kBfloat16},
                                                    {"float16", Precision::kFloat16}};
  app.add_option("--precision", options.precision, "float32, tf32, bfloat16 or float16")
      ->transform(CLI::CheckedTransformer(precisions));
  app.add_flag("!--no-graphs", options.graphs, "queue everything again at every clock");
  app.add_option(
      "--layers", options.layers,
      "write each layer's times, taken one by one, into this file; best with --no-graphs");
  CLI11_PARSE(app, count, arguments);
  try {
    run(options);
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  return 0;
}
