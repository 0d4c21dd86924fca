// Runs a net's training phase on synthetic images, one batch over and over: times it, or writes what
// its forward and backward make of its first weights. The peer of torch_net.py.
// Run it pinned to one core: taskset -c 1 build/bench/run_net configs/models/resnet18.prototxt

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/math/filler.hpp"
#include "common/time.hpp"
#include "proto/text.hpp"
#include "worker/backend/cpu_backend.hpp"
#include "worker/layers/net.hpp"

namespace {

using namespace taut;

struct Options {
  std::string net;
  std::int64_t size = 224;
  std::int64_t batch = 16;
  int iterations = 10;
  int repetitions = 3;
  int threads = 1;
  float rate = 1e-4F;
  bool layers = false;
  std::string dump;
};

[[noreturn]] void give_up(const std::string& message) {
  fmt::print(stderr, "run_net: {}\n", message);
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
  model::GraphOptions wanted;
  wanted.record = labelled_image(3, options.size, options.size);
  wanted.batch = options.batch;
  Result<model::Graph> graph = model::build_graph(net, wanted);
  if (!graph) give_up(graph.error().message);
  return std::move(graph).value();
}

/// The net, with parameters and the plainest update of them.
class Training {
 public:
  Training(Backend& backend, const Options& options)
      : rate_(options.rate),
        graph_(read_graph(options)),
        net_(graph_, backend, {.seed = 1, .slot = 0}),
        stream_(backend.make_stream()),
        images_(static_cast<std::size_t>(options.batch * 3 * options.size * options.size)),
        labels_(static_cast<std::size_t>(options.batch)),
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
    math::fill({math::Filler::Kind::kGaussian, 0, 50}, 1, "images", 0, images_);
    for (std::size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<float>(i * 7 % 10);
  }

  void forward_backward(std::int64_t clock) {
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
    ++steps_;
  }

  void update() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto value = host_view(values_[i].as<float>());
      const auto gradient = host_view(gradients_[i].as<float>());
      if (net_.parameters()[i].kind == TableKind::kAveraged) {
        std::ranges::copy(gradient, value.begin());
        continue;
      }
      for (std::size_t k = 0; k < value.size(); ++k) value[k] -= rate_ * gradient[k];
    }
  }

  [[nodiscard]] double loss() { return net_.loss(*stream_); }

  void print_layers() const {
    for (std::size_t layer = 0; layer < net_.layer_count(); ++layer) {
      const pb::LayerParameter& definition = graph_.nodes[layer].definition;
      fmt::print("  {:28} {:16} forward {:8.0f} us, backward {:8.0f} us\n", definition.name(),
                 definition.type(), 1e6 * forward_times_[layer] / steps_,
                 1e6 * backward_times_[layer] / steps_);
    }
  }

  /// batch.bin: images and labels; parameters.bin and gradients.bin: every table after the other;
  /// index.txt: the loss, then a line "name kind extents" for each table.
  void dump(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    std::ofstream batch(folder / "batch.bin", std::ios::binary);
    write(batch, images_);
    write(batch, labels_);
    std::ofstream parameters(folder / "parameters.bin", std::ios::binary);
    std::ofstream gradients(folder / "gradients.bin", std::ios::binary);
    std::ofstream index(folder / "index.txt");
    index << fmt::format("{:.9g}\n", loss());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const TableSpec& table = net_.parameters()[i];
      write(parameters, host_view(values_[i].as<float>()));
      write(gradients, host_view(gradients_[i].as<float>()));
      index << fmt::format("{} {} {}\n", table.name,
                           table.kind == TableKind::kTrained ? "trained" : "statistic",
                           fmt::join(table.shape, " "));
    }
    if (!batch || !parameters || !gradients || !index) {
      give_up("cannot write into " + folder.string());
    }
  }

 private:
  static void write(std::ofstream& file, std::span<const float> values) {
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size_bytes()));
  }

  float rate_;
  model::Graph graph_;
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

void time_training(const Backend& backend, Training& training, const Options& options) {
  std::int64_t clock = 0;
  const auto run = [&](int iterations) {
    for (int i = 0; i < iterations; ++i) {
      training.forward_backward(clock++);
      training.update();
    }
  };
  run(1);
  std::vector<double> rates;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    const TimePoint start = steady_now();
    run(options.iterations);
    rates.push_back(static_cast<double>(options.batch * options.iterations) /
                    seconds(steady_now() - start));
  }
  std::ranges::sort(rates);
  fmt::print("tautline ({}) {} batch {}: {:.2f} images/s (min {:.2f}, max {:.2f}; loss {:.4f})\n",
             backend.description(), std::filesystem::path(options.net).stem().string(),
             options.batch, rates[rates.size() / 2], rates.front(), rates.back(), training.loss());
  if (options.layers) training.print_layers();
}

void run(const Options& options) {
  const TimePoint start = steady_now();
  const model::Graph graph = read_graph(options);
  fmt::print("parsed and shape-checked {} layers in {:.1f} ms\n", graph.nodes.size(),
             1e3 * seconds(steady_now() - start));
  const auto backend = make_cpu_backend({.device = DeviceKind::kCpu, .threads = options.threads});
  Training training(*backend, options);
  if (options.dump.empty()) {
    time_training(*backend, training, options);
    return;
  }
  training.forward_backward(0);
  training.dump(options.dump);
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  CLI::App app("Runs a net's training phase on synthetic images.");
  app.add_option("net", options.net, "the model definition")->required();
  app.add_option("--size", options.size, "of the images' sides");
  app.add_option("--batch", options.batch);
  app.add_option("--iterations", options.iterations, "in one repetition");
  app.add_option("--repetitions", options.repetitions);
  app.add_option("--threads", options.threads);
  app.add_option("--rate", options.rate, "of the update");
  app.add_flag("--layers", options.layers, "say where the time goes");
  app.add_option("--dump", options.dump, "write one forward and backward into this folder");
  CLI11_PARSE(app, count, arguments);
  try {
    run(options);
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  return 0;
}
