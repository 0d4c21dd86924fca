#include "lab/training/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/net/zmq_endpoint.hpp"
#include "lab/training/meter.hpp"
#include "lab/training/training_run.hpp"
#include "worker/cache/initial_values.hpp"
#include "worker/device/math_options.hpp"
#include "worker/engine/backend.hpp"
#include "worker/replica.hpp"

namespace taut::lab {
namespace {

constexpr int kWarmUp = 5;
constexpr double kMinDeviation = 0.002;  // of a clock's time, over its mean
constexpr int kRounds = 120;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Rounded to a hundredth, for a file that people read.
double rounded(double value) {
  constexpr double kParts = 100;
  return std::round(value * kParts) / kParts;
}

/// A training net with its parameters, and its own clocks one after the other.
class Compute {
 public:
  Compute(const worker::JobAssets& assets, Backend& backend)
      : assets_(assets), backend_(backend), stream_(backend.make_stream()) {}

  Result<void> open() {
    const pb::Job& job = assets_.job();
    backend_.set_math(worker::math_options(job.solver_param()));
    worker::ReplicaOptions sharing;
    sharing.loading = data::Loading::kOnRequest;
    const std::uint32_t slots = std::max(1U, job.workers());
    TAUT_TRY(replica_, assets_.make_replica(backend_, 0, slots, Clock(0), 0, sharing));
    std::vector<float> start;
    for (std::size_t i = 0; i < net().parameters().size(); ++i) {
      const TableSpec& table = net().parameters()[i];
      start.resize(table.count());
      TAUT_TRY(read_initial_values(table, job.seed(), start));
      const DeviceSpan<float> value = floats(table.count());
      backend_.copy_to_device(*stream_, start, value);
      stream_->finish();
      net().bind_value(i, value);
      net().bind_gradient(i, floats(table.count()));
    }
    forward_.resize(net().layer_count());
    backward_.resize(net().layer_count());
    return ok();
  }

  Result<void> clock(Clock clock, bool counts) {
    constexpr Duration kNoWait{0};
    const Stopwatch feeding;
    TAUT_TRY(data::Batch batch, replica_.loader->next(kNoWait));
    if (counts) feed_.push_back(feeding.microseconds());
    const Stopwatch whole;
    const Stopwatch setting;
    net().set_batch(*stream_, batch.spans());
    double more = setting.microseconds();
    for (std::size_t layer = 0; layer < net().layer_count(); ++layer) {
      const Stopwatch stopwatch;
      net().forward(layer, *stream_, clock);
      if (counts) forward_[layer].push_back(stopwatch.microseconds() + std::exchange(more, 0));
    }
    for (std::size_t layer = net().layer_count(); layer-- > 0;) {
      const Stopwatch stopwatch;
      net().backward(layer, *stream_);
      if (layer == 0) (void)net().loss(*stream_);
      if (counts) backward_[layer].push_back(stopwatch.microseconds());
    }
    if (counts) clocks_.push_back(whole.microseconds());
    replica_.loader->recycle(std::move(batch));
    return ok();
  }

  void describe(pb::LabCompute& compute) const {
    compute.set_batch(static_cast<std::uint32_t>(replica_.batch));
    compute.set_feed_us(rounded(median(feed_)));
    double sum = 0;  // of the layers' medians
    for (std::size_t i = 0; i < forward_.size(); ++i) {
      sum += median(forward_[i]) + median(backward_[i]);
    }
    const double clocks = static_cast<double>(clocks_.size());
    const double mean = std::accumulate(clocks_.begin(), clocks_.end(), 0.0) / clocks;
    double squares = 0;
    for (const double one : clocks_) squares += (one - mean) * (one - mean);
    const double to_mean = mean / sum;
    for (std::size_t i = 0; i < forward_.size(); ++i) {
      pb::LabLayer& layer = *compute.add_layer();
      layer.set_name(assets_.train_graph().nodes[i].definition.name());
      layer.set_forward_us(rounded(median(forward_[i]) * to_mean));
      layer.set_backward_us(rounded(median(backward_[i]) * to_mean));
    }
    const double deviation = std::sqrt(squares / clocks) / mean;
    if (deviation < kMinDeviation) return;
    compute.set_spread(pb::LabCompute::LOGNORMAL);
    compute.set_deviation(std::round(deviation * 1e3) / 1e3);
  }

 private:
  Net& net() { return *replica_.net; }
  DeviceSpan<float> floats(std::size_t count) {
    return memory_.emplace_back(backend_.allocate_floats(count)).as<float>();
  }

  const worker::JobAssets& assets_;
  Backend& backend_;
  worker::Replica replica_;
  std::vector<DeviceBuffer> memory_;
  std::vector<std::vector<double>> forward_;   // by layer
  std::vector<std::vector<double>> backward_;  // by layer
  std::vector<double> feed_;
  std::vector<double> clocks_;      // forward and backward
  std::unique_ptr<Stream> stream_;  // last: work in it uses the others
};

Result<void> measure_compute(const pb::Job& job, std::uint32_t threads, pb::LabCompute& compute) {
  TAUT_TRY(const worker::JobAssets assets, worker::JobAssets::open(job, job.workers()));
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = static_cast<int>(threads);
  TAUT_TRY(const BackendChoice choice, make_backend(options));
  Compute measured(assets, *choice.backend);
  TAUT_TRY(measured.open());
  for (int i = 0; i < kWarmUp + kRounds; ++i) {
    TAUT_TRY(measured.clock(Clock(i), i >= kWarmUp));
  }
  measured.describe(compute);
  return ok();
}

/// Trains a few clocks in the lab, for what their messages take.
Result<void> measure_messages(pb::Job job, const pb::LabCluster& cluster, pb::LabCosts& costs) {
  constexpr int kClocks = 60;
  job.set_workers(1);
  pb::SolverParameter& solver = *job.mutable_solver_param();
  solver.set_max_iter(std::min(solver.max_iter(), kClocks));
  solver.clear_test_iter();
  solver.clear_test_interval();
  solver.clear_display();
  Meter meter;
  TrainingOptions options;
  options.job = std::move(job);
  options.cluster = cluster;
  // Long enough for answers to arrive while it computes: the client's work is measured then.
  constexpr double kClock_ms = 20;
  options.cluster.clear_compute();
  options.cluster.mutable_compute()->set_clock_ms(kClock_ms);
  options.records.set_metrics(false);
  options.meter = &meter;
  TAUT_TRY(const TrainingOutcome outcome, run_training(options));
  if (meter.shard.empty() || meter.client.empty()) {
    return invalid("no message was measured: " + outcome.job.message());
  }
  const MessageCost shard = cost_of(std::move(meter.shard));
  const MessageCost client = cost_of(std::move(meter.client));
  costs.set_shard_message_us(rounded(shard.each_us));
  costs.set_shard_us_per_mib(rounded(shard.us_per_mib));
  costs.set_client_message_us(rounded(client.each_us));
  costs.set_client_us_per_mib(rounded(client.us_per_mib));
  return ok();
}

/// Half of what a small message takes to another thread and back, through sockets of the loopback.
Result<double> measure_way() {
  constexpr int kPings = 400;
  constexpr Duration kLong{2'000'000};
  ZmqContext context{Security::insecure()};
  auto listening = context.make_endpoint();
  TAUT_TRY(const std::string address, listening->bind("127.0.0.1:0"));
  std::thread echo([&listening] {
    for (int i = 0; i < kPings; ++i) {
      auto ping = listening->receive(kLong);
      if (!ping || !listening->send(ping->from, std::move(ping->message))) return;
    }
  });
  auto asking = context.make_endpoint();
  std::vector<double> ways;
  if (const auto peer = asking->connect(address)) {
    for (int i = 0; i < kPings; ++i) {
      const Stopwatch stopwatch;
      const bool sent = asking->send(peer.value(), {{Frame::copy_of("ping")}}).has_value();
      if (!sent || !asking->receive(kLong)) break;
      ways.push_back(stopwatch.microseconds() / 2);
    }
  }
  echo.join();
  if (ways.size() == kPings) return median(std::move(ways));
  return make_error(ErrorCode::kTimeout, "a message over the loopback was not answered");
}

/// Of copies of a slice, which is what payloads in shared memory take at most.
double measure_copies() {
  constexpr std::size_t kBytes = 1UL << 20U;
  constexpr int kCopies = 100;
  constexpr double kBitsPerByte = 8;
  constexpr double kBitsPerUs = 1e3;  // of a Gbit/s
  std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  std::vector<double> times;
  for (int i = 0; i < kCopies; ++i) {
    from[static_cast<std::size_t>(i)] = static_cast<char>(i);
    const Stopwatch stopwatch;
    std::memcpy(to.data(), from.data(), kBytes);
    times.push_back(stopwatch.microseconds());
  }
  return kBitsPerByte * kBytes / median(std::move(times)) / kBitsPerUs;
}

}  // namespace

MessageCost cost_of(Meter::Samples samples) {
  constexpr double kMib = 1UL << 20U;
  std::ranges::sort(samples, {}, &Meter::Sample::bytes);
  const auto middle_of = [](std::span<const Meter::Sample> part) {
    std::vector<double> bytes;
    std::vector<double> times;
    for (const Meter::Sample& one : part) {
      bytes.push_back(static_cast<double>(one.bytes));
      times.push_back(one.microseconds);
    }
    return std::pair(median(std::move(bytes)), median(std::move(times)));
  };
  const std::span<const Meter::Sample> all(samples);
  const std::size_t half = (all.size() + 1) / 2;
  const auto [small, small_us] = middle_of(all.first(half));
  const auto [large, large_us] = middle_of(all.last((all.size() + 7) / 8));
  MessageCost cost;
  if (large > small)
    cost.us_per_mib = std::max(0.0, (large_us - small_us) / (large - small)) * kMib;
  cost.each_us = std::max(0.0, small_us - cost.us_per_mib * small / kMib);
  return cost;
}

Result<pb::LabCluster> calibrate(const pb::Job& job, std::uint32_t threads) {
  constexpr std::uint32_t kPlaces = 4096;
  pb::LabCluster cluster;
  pb::LabHost& host = *cluster.add_host();
  host.set_name("this");
  host.set_cores(std::max(1U, std::thread::hardware_concurrency()));
  host.set_workers(kPlaces);
  host.set_servers(kPlaces);
  host.set_loopback("loopback");
  pb::LabLink& loopback = *cluster.add_link();
  loopback.set_name("loopback");
  TAUT_TRY(const double way, measure_way());
  loopback.set_latency_us(rounded(way));
  loopback.set_gbit_per_s(rounded(measure_copies()));
  TAUT_TRY(measure_compute(job, threads, *cluster.mutable_compute()));
  TAUT_TRY(measure_messages(job, cluster, *cluster.mutable_costs()));
  return cluster;
}

}  // namespace taut::lab
