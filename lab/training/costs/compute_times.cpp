#include "lab/training/costs/compute_times.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "lab/random.hpp"
#include "lab/training/costs/cluster_misfit.hpp"
#include "worker/model/net_cost.hpp"

namespace taut::lab {
namespace {

using sim::Random;

constexpr double kUsPerMs = 1e3;

/// In (0, 1].
double unit(std::uint64_t bits) {
  return static_cast<double>((bits >> 11U) + 1) * 0x1p-53;
}

Random draws(std::uint64_t seed, std::uint32_t worker, std::int64_t number) {
  const std::uint64_t of_worker = Random::mix(seed ^ Random::mix(worker + 1ULL));
  return Random(Random::mix(of_worker ^ static_cast<std::uint64_t>(number)));
}

/// Mean 1.
double lognormal(Random& random, double deviation) {
  const double variance = std::log1p(deviation * deviation);
  const double radius = std::sqrt(-2 * std::log(unit(random.next())));
  const double normal = radius * std::cos(2 * std::numbers::pi * unit(random.next()));
  return std::exp(std::sqrt(variance) * normal - variance / 2);
}

/// Mean 1.
double pareto(Random& random, double shape) {
  return (shape - 1) / shape * std::pow(unit(random.next()), -1 / shape);
}

}  // namespace

Result<ComputeTimes> ComputeTimes::make(const pb::LabCompute& compute, const model::Graph& graph,
                                        std::int64_t batch, std::uint64_t seed) {
  ComputeTimes times;
  times.compute_ = compute;
  times.seed_ = seed;
  times.batch_ = batch;
  times.settle_trace();
  const std::size_t layers = graph.nodes.size();
  times.forward_.assign(layers, 0);
  times.backward_.assign(layers, 0);
  if (const auto misfit = times_misfit(compute, graph)) return invalid(misfit->what);
  const double share =
      compute.has_batch() ? static_cast<double>(batch) / static_cast<double>(compute.batch()) : 1;
  times.feed_ = share * compute.feed_us();
  for (const pb::LabLayer& layer : compute.layer()) {
    const auto found = std::ranges::find(
        graph.nodes, layer.name(), [](const model::Node& node) { return node.definition.name(); });
    const auto at = static_cast<std::size_t>(found - graph.nodes.begin());
    times.forward_[at] = share * layer.forward_us();
    times.backward_[at] = share * layer.backward_us();
  }
  if (compute.layer_size() == 0) {
    const double clock_us =
        kUsPerMs * (compute.has_clock_ms() ? compute.clock_ms() : times.trace_mean_);
    const model::NetCost cost = model::net_cost(graph);
    for (std::size_t i = 0; i < layers; ++i) {
      const double part = cost.multiply_adds > 0
                              ? static_cast<double>(cost.layers[i].multiply_adds) /
                                    static_cast<double>(cost.multiply_adds)
                              : 1 / static_cast<double>(layers);
      times.forward_[i] = share * part * clock_us / 3;
      times.backward_[i] = 2 * times.forward_[i];
    }
  }
  times.whole_forward_ = std::accumulate(times.forward_.begin(), times.forward_.end(), 0.0);
  return times;
}

ComputeTimes ComputeTimes::of_spread(const pb::LabCompute& compute, std::uint64_t seed) {
  ComputeTimes times;
  times.compute_ = compute;
  times.seed_ = seed;
  times.settle_trace();
  return times;
}

void ComputeTimes::settle_trace() {
  const auto& times = compute_.time_ms();
  if (times.empty()) return;
  trace_mean_ = std::accumulate(times.begin(), times.end(), 0.0) / times.size();
}

double ComputeTimes::whole_clock() const {
  return std::accumulate(backward_.begin(), backward_.end(), whole_forward_);
}

double ComputeTimes::factor(std::uint32_t worker, Clock clock) const {
  switch (compute_.spread()) {
    case pb::LabCompute::LOGNORMAL: {
      Random random = draws(seed_, worker, clock.value());
      return lognormal(random, compute_.deviation());
    }
    case pb::LabCompute::PARETO: {
      Random random = draws(seed_, worker, clock.value());
      return pareto(random, compute_.shape());
    }
    case pb::LabCompute::BURSTS: {
      Random random = draws(seed_, worker, clock.value() / compute_.burst_clocks());
      const double mean = 1 + compute_.burst_share() * (compute_.burst_factor() - 1);
      return (random.chance(compute_.burst_share()) ? compute_.burst_factor() : 1) / mean;
    }
    case pb::LabCompute::TRACE: {
      if (compute_.time_ms().empty()) break;
      const auto count = static_cast<std::uint64_t>(compute_.time_ms_size());
      const std::uint64_t place = draws(seed_, worker, -1).below(count);
      const auto at = (place + static_cast<std::uint64_t>(clock.value())) % count;
      return compute_.time_ms(static_cast<int>(at)) / trace_mean_;
    }
    case pb::LabCompute::CONSTANT:
      break;
  }
  return 1;
}

double ComputeTimes::layer(worker::Pace::Pass pass, std::size_t layer, std::uint32_t worker,
                           Clock clock) const {
  const double mean = (pass == worker::Pace::Pass::kForward ? forward_ : backward_)[layer];
  return mean == 0 ? 0 : mean * factor(worker, clock);
}

double ComputeTimes::test(std::int64_t records) const {
  if (!compute_.tests()) return 0;
  return whole_forward_ * static_cast<double>(records) / static_cast<double>(batch_);
}

}  // namespace taut::lab
