// Runs a net's training phase on synthetic images, one batch over and over: times it, says how its
// loss falls, or writes what its forward and backward make of its first weights. The peer of
// torch_net.py.
// Run it pinned to one core: taskset -c 1 build/bench/run_net configs/models/resnet18.prototxt

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "common/math/filler.hpp"
#include "common/time.hpp"
#include "proto/config/text.hpp"
#include "tests/bench/timed_training.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace {

using namespace taut;
using bench::give_up;
using bench::TimedTraining;

struct Options {
  std::string net;
  std::int64_t size = 224;
  std::int64_t batch = 16;
  int iterations = 10;
  int repetitions = 3;
  int threads = 1;
  float rate = 1e-4F;
  bool layers = false;
  bool losses = false;
  std::string dump;
};

/// The training phase, without what is random: nothing is dropped.
model::Graph read_graph(const Options& options) {
  pb::NetParameter net;
  if (const Result<void> read = read_text(options.net, net); !read) give_up(read.error().message);
  for (pb::LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() == "Dropout") layer.mutable_dropout_param()->set_dropout_ratio(0);
    layer.clear_transform_param();
  }
  model::GraphOptions graph_options;
  graph_options.record = labelled_image(3, options.size, options.size);
  graph_options.batch = options.batch;
  return bench::graph_of(net, graph_options);
}

/// Images and labels.
std::vector<std::vector<float>> synthetic_batch(const Options& options) {
  const auto images = static_cast<std::size_t>(options.batch);
  std::vector<std::vector<float>> batch{
      std::vector<float>(images * static_cast<std::size_t>(3 * options.size * options.size)),
      std::vector<float>(images)};
  math::fill({math::Filler::Kind::kGaussian, 0, 50}, 1, "images", 0, batch[0]);
  for (std::size_t i = 0; i < images; ++i) batch[1][i] = static_cast<float>(i * 7 % 10);
  return batch;
}

void write(std::ofstream& file, std::span<const float> values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size_bytes()));
}

/// batch.bin: images and labels; parameters.bin and gradients.bin: every table after the other;
/// index.txt: the loss, then a line "name kind extents" for each table.
void dump(TimedTraining& training, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream batch(folder / "batch.bin", std::ios::binary);
  for (const std::vector<float>& blob : training.batch()) write(batch, blob);
  std::ofstream parameters(folder / "parameters.bin", std::ios::binary);
  std::ofstream gradients(folder / "gradients.bin", std::ios::binary);
  std::ofstream index(folder / "index.txt");
  index << fmt::format("{:.9g}\n", training.loss());
  for (std::size_t i = 0; i < training.tables().size(); ++i) {
    const TableSpec& table = training.tables()[i];
    write(parameters, training.values(i));
    write(gradients, training.gradients(i));
    index << fmt::format("{} {} {}\n", table.name,
                         table.kind == TableKind::kTrained ? "trained" : "statistic",
                         fmt::join(table.shape, " "));
  }
  if (!batch || !parameters || !gradients || !index) {
    give_up("cannot write into " + folder.string());
  }
}

std::string name_of(const Options& options) {
  return std::filesystem::path(options.net).stem().string();
}

void time_training(const Backend& backend, TimedTraining& training, const Options& options) {
  const std::vector<double> rates = bench::measure_rates(
      training, 1, options.iterations, options.repetitions, static_cast<double>(options.batch));
  fmt::print("tautline ({}) {} batch {}: {:.2f} images/s (min {:.2f}, max {:.2f}; loss {:.4f})\n",
             backend.description(), name_of(options), options.batch, rates[rates.size() / 2],
             rates.front(), rates.back(), training.loss());
  if (options.layers) training.print_layers();
}

/// The loss before the first update and after each.
void print_losses(TimedTraining& training, const Options& options) {
  fmt::print("{} batch {}, rate {:g}: loss", name_of(options), options.batch, options.rate);
  for (int i = 0; i <= options.iterations; ++i) {
    training.forward_backward();
    fmt::print(" {:.4f}", training.loss());
    std::fflush(stdout);
    training.update();
  }
  fmt::print("\n");
}

void run(const Options& options) {
  const TimePoint start = steady_now();
  const model::Graph graph = read_graph(options);
  fmt::print("parsed and shape-checked {} layers in {:.1f} ms\n", graph.nodes.size(),
             1e3 * seconds(steady_now() - start));
  const auto backend = make_cpu_backend({.device = DeviceKind::kCpu, .threads = options.threads});
  TimedTraining training(graph, *backend, synthetic_batch(options), options.rate);
  if (options.losses) return print_losses(training, options);
  if (options.dump.empty()) return time_training(*backend, training, options);
  training.forward_backward();
  dump(training, options.dump);
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
  app.add_flag("--losses", options.losses, "say the loss before each of the iterations instead");
  app.add_option("--dump", options.dump, "write one forward and backward into this folder");
  CLI11_PARSE(app, count, arguments);
  try {
    run(options);
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  return 0;
}
