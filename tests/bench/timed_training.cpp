#include "tests/bench/timed_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "common/math/filler.hpp"
#include "common/time.hpp"
#include "proto/config/text.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut::bench {

TimedTraining::TimedTraining(const model::Graph& graph, Backend& backend,
                             std::vector<std::vector<float>> batch, float rate)
    : graph_(graph),
      net_(graph_, backend, {.seed = 1, .slot = 0}),
      stream_(backend.make_stream()),
      batch_(std::move(batch)),
      rate_(rate),
      forward_times_(net_.layer_count()),
      backward_times_(net_.layer_count()) {
  for (std::size_t i = 0; i < tables().size(); ++i) {
    const TableSpec& table = tables()[i];
    values_.push_back(backend.allocate_floats(table.count()));
    gradients_.push_back(backend.allocate_floats(table.count()));
    math::fill(table.filler, 1, table.name, 0, host_view(values_[i].as<float>()));
    net_.bind_value(i, values_[i].as<float>());
    net_.bind_gradient(i, gradients_[i].as<float>());
  }
}

std::span<const float> TimedTraining::values(std::size_t table) const {
  return host_view(values_[table].as<float>());
}

std::span<const float> TimedTraining::gradients(std::size_t table) const {
  return host_view(gradients_[table].as<float>());
}

void TimedTraining::forward_backward() {
  const std::vector<std::span<const float>> fed(batch_.begin(), batch_.end());
  net_.set_batch(*stream_, fed);
  for (std::size_t layer = 0; layer < net_.layer_count(); ++layer) {
    const TimePoint start = steady_now();
    net_.forward(layer, *stream_, Clock(steps_));
    forward_times_[layer] += seconds(steady_now() - start);
  }
  for (std::size_t layer = net_.layer_count(); layer-- > 0;) {
    const TimePoint start = steady_now();
    net_.backward(layer, *stream_);
    backward_times_[layer] += seconds(steady_now() - start);
  }
  ++steps_;
}

void TimedTraining::update() {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto value = host_view(values_[i].as<float>());
    const auto gradient = gradients(i);
    if (tables()[i].kind == TableKind::kAveraged) {
      std::ranges::copy(gradient, value.begin());
      continue;
    }
    for (std::size_t k = 0; k < value.size(); ++k) value[k] -= rate_ * gradient[k];
  }
}

void TimedTraining::print_layers() const {
  const auto steps = static_cast<double>(steps_);
  for (std::size_t layer = 0; layer < net_.layer_count(); ++layer) {
    const pb::LayerParameter& definition = graph_.nodes[layer].definition;
    fmt::print("  {:28} {:16} forward {:8.0f} us, backward {:8.0f} us\n", definition.name(),
               definition.type(), 1e6 * forward_times_[layer] / steps,
               1e6 * backward_times_[layer] / steps);
  }
}

std::vector<double> measure_rates(TimedTraining& training, int warm_up, int iterations,
                                  int repetitions, double items) {
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) training.step();
  };
  run(warm_up);
  std::vector<double> rates;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const TimePoint start = steady_now();
    run(iterations);
    rates.push_back(items * iterations / seconds(steady_now() - start));
  }
  std::ranges::sort(rates);
  return rates;
}

model::Graph graph_of(std::string_view text, const model::GraphOptions& options) {
  pb::NetParameter net;
  if (const Result<void> parsed = parse_text(text, "net", net); !parsed) {
    give_up(parsed.error().message);
  }
  return graph_of(net, options);
}

model::Graph graph_of(const pb::NetParameter& net, const model::GraphOptions& options) {
  Result<model::Graph> graph = model::build_graph(net, options);
  if (!graph) give_up(graph.error().message);
  return std::move(graph).value();
}

void give_up(const std::string& message) {
  fmt::print(stderr, "{}: {}\n", program_invocation_short_name, message);
  std::exit(1);
}

}  // namespace taut::bench
