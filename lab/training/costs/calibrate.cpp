#include "lab/training/costs/calibrate.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/net/zmq/zmq_endpoint.hpp"
#include "lab/training/costs/codec_costs.hpp"
#include "lab/training/meter.hpp"
#include "lab/training/training_run.hpp"
#include "worker/engine/backend.hpp"
#include "worker/replica.hpp"

namespace taut::lab {
namespace {

constexpr int kWarmUp = 10;
constexpr double kMinDeviation = 0.002;  // of a clock's time, over its mean
constexpr int kClocks = 150;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Rounds to a hundredth, for a file that people read.
double rounded(double value) {
  constexpr double kParts = 100;
  return std::round(value * kParts) / kParts;
}

/// The time to make a batch.
Result<double> measure_feed(const worker::JobAssets& assets, std::uint32_t threads) {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = static_cast<int>(threads);
  TAUT_TRY(const BackendChoice choice, make_backend(options));
  worker::ReplicaOptions sharing;
  sharing.loading = data::Loading::kOnRequest;
  const std::uint32_t slots = std::max(1U, assets.job().workers());
  TAUT_TRY(const worker::Replica replica,
           assets.make_replica(*choice.backend, 0, slots, Clock(0), 0, sharing));
  std::vector<double> times;
  for (int i = 0; i < kWarmUp + kClocks; ++i) {
    const Stopwatch stopwatch;
    TAUT_TRY(data::Batch batch, replica.loader->next(Duration(0)));
    if (i >= kWarmUp) times.push_back(stopwatch.microseconds());
    replica.loader->recycle(std::move(batch));
  }
  return median(std::move(times));
}

/// Trains some clocks in the lab, so that the caches are as in a real training.
Result<Meter> measure_training(const pb::Job& job, const pb::LabCluster& cluster,
                               std::uint32_t threads) {
  // Long enough for answers to arrive while it computes: the client's work is measured then.
  constexpr double kClock_ms = 20;
  Meter meter;
  TrainingOptions options;
  options.job = job_to_measure(job, 1);
  options.job.mutable_solver_param()->set_max_iter(kWarmUp + kClocks);
  options.cluster = cluster;
  options.cluster.clear_compute();
  options.cluster.mutable_compute()->set_clock_ms(kClock_ms);
  options.threads = threads;
  options.records.set_metrics(false);
  options.meter = &meter;
  TAUT_TRY(const TrainingOutcome outcome, run_training(options));
  if (!meter.shard.empty() && !meter.client.empty() && !meter.backward_us.empty()) return meter;
  return invalid("nothing was measured: " + outcome.job.message());
}

/// Sets the compute times: each layer's median, all scaled so that a clock takes its mean, and the
/// deviation of clocks.
void describe(const model::Graph& graph, const Meter& meter, pb::LabCompute& compute) {
  const std::size_t layers = graph.nodes.size();
  std::vector<double> clocks(kClocks);
  std::vector<double> forward(layers);
  std::vector<double> backward(layers);
  double sum = 0;  // of the layers' medians
  for (std::size_t layer = 0; layer < layers; ++layer) {
    for (const auto& [from, into] :
         {std::pair(&meter.forward_us, &forward), std::pair(&meter.backward_us, &backward)}) {
      const std::vector<double>& all = (*from)[layer];
      const std::vector<double> counted(all.begin() + kWarmUp, all.end());
      for (std::size_t i = 0; i < clocks.size(); ++i) clocks[i] += counted[i];
      (*into)[layer] = median(counted);
      sum += (*into)[layer];
    }
  }
  const double mean = std::accumulate(clocks.begin(), clocks.end(), 0.0) / kClocks;
  double squares = 0;
  for (const double one : clocks) squares += (one - mean) * (one - mean);
  // The batch is made by a dedicated thread in a real worker.
  forward[0] = std::max(0.0, forward[0] - compute.feed_us());
  for (std::size_t layer = 0; layer < layers; ++layer) {
    pb::LabLayer& one = *compute.add_layer();
    one.set_name(graph.nodes[layer].definition.name());
    one.set_forward_us(rounded(forward[layer] * mean / sum));
    one.set_backward_us(rounded(backward[layer] * mean / sum));
  }
  const double deviation = std::sqrt(squares / kClocks) / mean;
  if (deviation < kMinDeviation) return;
  compute.set_spread(pb::LabCompute::LOGNORMAL);
  compute.set_deviation(std::round(deviation * 1e3) / 1e3);
}

/// The processor time that this process has used so far, in microseconds.
double processor_us() {
  rusage used{};
  (void)getrusage(RUSAGE_SELF, &used);
  constexpr double kUsPerS = 1e6;
  return kUsPerS * static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/// The time of a small message from one thread to another, through loopback sockets: until it has
/// arrived, and of the processor on both sides.
struct Way {
  double us = 0;
  double processor_us = 0;
};

Result<Way> measure_way() {
  constexpr int kPings = 600;
  static constexpr Duration kLong{2'000'000};
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
  const double before_us = processor_us();
  if (const auto peer = asking->connect(address)) {
    for (int i = 0; i < kPings; ++i) {
      const Stopwatch stopwatch;
      const bool sent = asking->send(peer.value(), {{Frame::copy_of("ping")}}).has_value();
      if (!sent || !asking->receive(kLong)) break;
      ways.push_back(stopwatch.microseconds() / 2);
    }
  }
  echo.join();
  if (ways.size() < kPings) {
    return make_error(ErrorCode::kTimeout, "a message over the loopback was not answered");
  }
  return Way{median(std::move(ways)), (processor_us() - before_us) / (2 * kPings)};
}

/// The rate of copying a slice, which is the most that payloads in shared memory take.
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

/// Scales the costs of messages so that a clock takes as long as in real processes. If the compute
/// leaves too little time for a worker's messages, the compute is scaled instead.
Result<void> fit(const ProcessTimes& processes, const pb::Job& job, pb::LabCluster& cluster) {
  TrainingOptions options;
  options.job = job_to_measure(job, processes.workers);
  options.job.mutable_solver_param()->set_max_iter(kClocks);
  options.cluster = cluster;
  options.learns = false;
  options.records.set_metrics(false);
  TAUT_TRY(const TrainingOutcome lab, run_training(options));
  if (processes.worker_us <= 0 || processes.server_us <= 0) {
    return invalid(fmt::format(
        "a clock of real processes took {:.0f} us of a worker and {:.0f} us of the server: too "
        "short to be told from other load; repeat it, or measure a job with a larger batch",
        processes.worker_us, processes.server_us));
  }
  const double clocks = static_cast<double>(kClocks) * processes.workers;
  const double clients_us = lab.clients_us / clocks;
  pb::LabCosts& costs = *cluster.mutable_costs();
  if (lab.shards_us > 0) {
    const double scale = processes.server_us / (lab.shards_us / clocks);
    costs.set_shard_message_us(rounded(costs.shard_message_us() * scale));
    costs.set_shard_us_per_mib(rounded(costs.shard_us_per_mib() * scale));
    costs.set_apply_us_per_mib(rounded(costs.apply_us_per_mib() * scale));
  }
  pb::LabCompute& compute = *cluster.mutable_compute();
  double layers_us = 0;
  for (const pb::LabLayer& layer : compute.layer()) {
    layers_us += layer.forward_us() + layer.backward_us();
  }
  const double left_us = processes.worker_us - compute.feed_us() - layers_us;
  if (left_us >= clients_us && clients_us > 0) {
    const double scale = left_us / clients_us;
    costs.set_client_message_us(rounded(costs.client_message_us() * scale));
    costs.set_client_us_per_mib(rounded(costs.client_us_per_mib() * scale));
  } else if (layers_us > 0) {
    const double compute_us = processes.worker_us - compute.feed_us() - clients_us;
    if (compute_us <= 0) {
      return invalid(fmt::format(
          "a clock of real processes took {:.0f} us of a worker, of which making batches and "
          "messages alone take {:.0f}: nothing is left for computing; repeat it, or measure a job "
          "with a larger batch",
          processes.worker_us, compute.feed_us() + clients_us));
    }
    const double scale = compute_us / layers_us;
    for (pb::LabLayer& layer : *compute.mutable_layer()) {
      layer.set_forward_us(rounded(layer.forward_us() * scale));
      layer.set_backward_us(rounded(layer.backward_us() * scale));
    }
  }
  return ok();
}

}  // namespace

pb::Job job_to_measure(pb::Job job, std::uint32_t workers) {
  job.set_workers(workers);
  job.clear_min_workers();
  job.clear_straggler();
  job.clear_clock_time_ms();
  job.clear_checkpoint();
  job.clear_restart();
  job.clear_resume();
  // Encoding times are measured separately.
  job.clear_compression();
  // Messages cost the same between workers.
  job.clear_exchange();
  job.mutable_consistency()->Clear();
  job.mutable_consistency()->set_mode(pb::Consistency::BSP);
  pb::SolverParameter& solver = *job.mutable_solver_param();
  solver.clear_test_iter();
  solver.clear_test_interval();
  solver.clear_display();
  solver.clear_snapshot();
  solver.set_snapshot_after_train(false);
  return job;
}

MessageCost cost_of(Meter::Samples samples) {
  constexpr double kMib = 1UL << 20U;
  constexpr double kApart = 16UL << 10U;
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
  if (large - small >= kApart) {
    cost.us_per_mib = std::max(0.0, (large_us - small_us) / (large - small)) * kMib;
  }
  cost.each_us = std::max(0.0, small_us - cost.us_per_mib * small / kMib);
  return cost;
}

Result<pb::LabCluster> calibrate(const pb::Job& job, std::uint32_t threads,
                                 const std::optional<ProcessTimes>& processes) {
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
  TAUT_TRY(const Way way, measure_way());
  // Its processor time is in the costs.
  loopback.set_latency_us(rounded(std::max(0.0, way.us - way.processor_us)));
  loopback.set_gbit_per_s(rounded(measure_copies()));
  pb::LabCompute& compute = *cluster.mutable_compute();
  TAUT_TRY(const worker::JobAssets assets, worker::JobAssets::open(job, job.workers()));
  TAUT_TRY(const double feed, measure_feed(assets, threads));
  compute.set_batch(static_cast<std::uint32_t>(assets.train_batch()));
  compute.set_feed_us(rounded(feed));
  TAUT_TRY(const Meter meter, measure_training(job, cluster, threads));
  describe(assets.train_graph(), meter, compute);
  const MessageCost shard = cost_of(meter.shard);
  const MessageCost client = cost_of(meter.client);
  pb::LabCosts& costs = *cluster.mutable_costs();
  // A shard receives a message and sends its answer; a client does only one of these.
  costs.set_shard_message_us(rounded(shard.each_us + way.processor_us));
  TAUT_TRY(measure_codecs(job, assets.train_graph().parameters, costs));
  // A MiB that arrives is applied, and a MiB is sent back for it.
  costs.set_shard_us_per_mib(
      rounded(std::max(0.0, shard.us_per_mib - costs.apply_us_per_mib() / 2)));
  costs.set_client_message_us(rounded(client.each_us + way.processor_us / 2));
  costs.set_client_us_per_mib(rounded(client.us_per_mib));
  if (processes) {
    TAUT_TRY(fit(*processes, job, cluster));
  }
  return cluster;
}

}  // namespace taut::lab
