#include "tests/twin/schedules/scenarios.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <utility>

#include "proto/config/job_state.hpp"
#include "proto/config/settle_compression.hpp"
#include "proto/config/text.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/cache/replicated_cache.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/device/pinned_memory.hpp"
#include "worker/device/pinned_parts.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/engine/plan/planned_backend.hpp"
#include "worker/training/trainer.hpp"

namespace taut::twin::test {

using namespace taut::test;
using namespace taut::worker;

namespace {

// Every kind of table, layers that are computed at once, and dropout, whose draw a replay repeats
// at another clock.
constexpr const char* kImages = R"(
layer { name: 'made up' type: 'DummyData' top: 'data' top: 'label'
  dummy_data_param { shape { dim: 6 dim: 2 dim: 8 dim: 8 } shape { dim: 6 }
                     data_filler { type: 'gaussian' std: 1 } data_filler { type: 'constant' }
                     classes: 0 classes: 3 } }
layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'
        convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'norm' }
layer { name: 'scale' type: 'Scale' bottom: 'norm' top: 'scale' scale_param { bias_term: true } }
layer { name: 'bent' type: 'ReLU' bottom: 'scale' top: 'scale' }
layer { name: 'pool' type: 'Pooling' bottom: 'scale' top: 'pool'
        pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'drop' type: 'Dropout' bottom: 'pool' top: 'pool' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
        inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' }
layer { name: 'last' type: 'InnerProduct' bottom: 'ip' top: 'last'
        inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'last' bottom: 'label' top: 'loss' })";

// All steps in one call of cuDNN's, where that may be.
constexpr const char* kSequences = R"(
layer { name: 'made up' type: 'DummyData' top: 'data' top: 'label'
  dummy_data_param { shape { dim: 5 dim: 3 dim: 4 } shape { dim: 3 }
                     data_filler { type: 'gaussian' std: 1 } data_filler { type: 'constant' }
                     classes: 0 classes: 3 } }
layer { name: 'lstm' type: 'LSTM' bottom: 'data' top: 'lstm'
        recurrent_param { num_output: 6 num_layers: 2 last_step: true
                          weight_filler { type: 'xavier' } } }
layer { name: 'last' type: 'InnerProduct' bottom: 'lstm' top: 'last'
        inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'last' bottom: 'label' top: 'loss' })";

constexpr std::array<Scenario, 8> kScenarios = {{
    {.name = "served", .net = kImages},
    {.name = "alone", .net = kImages, .is_local = true, .batches = 4},
    {.name = "halves", .net = kImages, .precision = Precision::kFloat16},
    {.name = "sequences", .net = kSequences, .deterministic = false},
    {.name = "planned", .net = kImages, .is_planned = true},
    {.name = "copying devices", .devices = 2, .net = kImages},
    {.name = "NCCL", .devices = 3, .net = kImages, .nccl = true},
    {.name = "compressed", .net = kImages, .keep = 0.25F},
}};

pb::Job job_of(const Scenario& scenario) {
  pb::Job job;
  job.set_seed(5);
  REQUIRE(parse_text(scenario.net, scenario.name, *job.mutable_net_param()).has_value());
  job.mutable_solver_param()->set_base_lr(0.05F);
  job.mutable_solver_param()->set_momentum(0.9F);
  job.mutable_solver_param()->set_iter_size(scenario.batches);
  if (scenario.keep > 0) {
    pb::PushCompression& push = *job.mutable_compression()->add_push();
    push.set_scheme(pb::PushCompression::RANDOM_K);
    push.set_keep(scenario.keep);
    push.set_min_values(20);
  }
  return job;
}

/// Opened once: a device's addresses are never given out again.
Backend& device(int index, const Run& run) {
  if (run.on_cpu) {
    static std::map<int, std::unique_ptr<Backend>> cpus;
    auto& cpu = cpus[index];
    if (cpu == nullptr) cpu = make_cpu_backend({.threads = 1});
    return *cpu;
  }
  static std::map<std::array<int, 3>, std::unique_ptr<Backend>> open;
  auto& place = open[{index, static_cast<int>(run.graphs), static_cast<int>(run.separate_memory)}];
  if (place == nullptr) {
    setenv("TAUTLINE_DEVICE_MEMORY", run.separate_memory ? "separate" : "shared", 1);
    BackendOptions options;
    options.device = DeviceKind::kCuda;
    options.cuda_device = index;
    options.cuda_graphs = run.graphs;
    auto choice = make_backend(options);
    if (!choice) throw DeviceError(choice.error().message);
    place = std::move(choice.value().backend);
  }
  return *place;
}

/// What a worker's devices train with: made in the order of worker/job_run.cpp, and gone in its
/// reverse.
class Training {
 public:
  Training(const Scenario& scenario, const Run& run) : scenario_(scenario), job_(job_of(scenario)) {
    for (int i = 0; i < scenario.devices; ++i) devices_.push_back(&device(i, run));
    if (scenario.is_planned && !run.on_cpu) plan(budget());
  }

  Result<Tables> run(std::int64_t clocks, Tables* at_end) {
    for (Backend* const one : devices_) {
      one->set_math({.precision = scenario_.precision, .deterministic = scenario_.deterministic});
    }
    const auto count = static_cast<std::uint32_t>(devices_.size());
    TAUT_TRY(const JobAssets assets, JobAssets::open(job_, 1, count));
    std::vector<Replica> replicas;
    for (std::uint32_t i = 0; i < count; ++i) {
      TAUT_TRY(Replica replica, assets.make_replica(*devices_[i], 0, 1, Clock(0), i));
      replicas.push_back(std::move(replica));
    }
    if (scenario_.is_local) return train_alone(assets, replicas, clocks);
    return train_served(assets, replicas, clocks, at_end);
  }

 private:
  void plan(Bytes budget) {
    planned_ = std::make_unique<PlannedBackend>(
        *devices_[0], PlannedBackend::Options{.budget = budget, .poison = true});
    planned_on_ = std::exchange(devices_[0], planned_.get());
  }

  /// The smallest, in twentieths of what is live at once, in which each step has room; or what
  /// TAUTLINE_TWIN_BUDGET says, where a failure would disturb the search.
  Bytes budget() {
    static Bytes found{0};
    if (const char* const given = std::getenv("TAUTLINE_TWIN_BUDGET")) {
      found = Bytes(std::strtoull(given, nullptr, 10));
    }
    if (found != Bytes(0)) return found;
    constexpr std::uint64_t kParts = 20;
    plan(Bytes(1U << 30U));
    (void)run(1, nullptr).value();
    const std::uint64_t peak = planned_->cycle("training")->plan().peak_bytes.value();
    for (std::uint64_t part = kParts / 2; part < kParts && found == Bytes(0); ++part) {
      devices_[0] = planned_on_;
      plan(Bytes(peak * part / kParts));
      if (run(1, nullptr)) found = planned_->budget();
    }
    devices_[0] = planned_on_;
    REQUIRE(found != Bytes(0));
    fmt::print("budget {}\n", found.value());
    return found;
  }

  /// The cache computes on the trainer's streams as long as it is asked for values.
  Result<Tables> loop(const JobAssets& assets, std::vector<Replica>& replicas,
                      ParameterCache& cache, std::int64_t clocks) const {
    Trainer::Options options;
    options.end = Clock(clocks);
    options.batches = scenario_.batches;
    ProgressBoard board;
    Trainer trainer(replicas, cache, nullptr, options, board);
    const std::atomic<bool> stop = false;
    TAUT_TRY(trainer.run(stop));
    TAUT_TRY(cache.flush(kDeadline));
    return values_of(cache, assets.train_graph());
  }

  static Tables values_of(ParameterCache& cache, const model::Graph& graph) {
    Tables all;
    for (const TableSpec& table : graph.parameters) {
      all.emplace_back(table.count());
      if (auto read = cache.snapshot(table.id, all.back()); !read) {
        throw DeviceError(read.error().message);
      }
    }
    return all;
  }

  Result<Tables> train_alone(const JobAssets& assets, std::vector<Replica>& replicas,
                             std::int64_t clocks) {
    LocalCache::Options options;
    options.seed = job_.seed();
    options.rule = to_update_rule(job_.solver_param()).value();
    LocalCache cache(*devices_[0], assets.train_graph().parameters, options);
    return loop(assets, replicas, cache, clocks);
  }

  Result<Tables> train_served(const JobAssets& assets, std::vector<Replica>& replicas,
                              std::int64_t clocks, Tables* at_end) {
    JobMaker maker(1, Slack(0), 2);
    *maker.state.mutable_definition() = job_;
    ServedJob served(maker);
    Result<Tables> trained = make_error(ErrorCode::kUnavailable, "not trained");
    try {
      trained = train_with(served, assets, replicas, clocks);
    } catch (const DeviceError& failure) {
      trained = make_error(ErrorCode::kUnavailable, failure.what());
    }
    if (at_end != nullptr) *at_end = values_at_shards(served, assets.train_graph());
    return trained;
  }

  Result<Tables> train_with(ServedJob& served, const JobAssets& assets,
                            std::vector<Replica>& replicas, std::int64_t clocks) {
    const std::vector<TableSpec>& tables = assets.train_graph().parameters;
    ClientOptions options = served.options(WorkerId(0));
    options.update_memory = update_memory(*devices_[0]);
    TAUT_TRY(options.encoding.compression, to_compression(job_));
    TAUT_TRY(options.shared_memory, SharedArena::create(Bytes(0), pinning(*devices_[0])));
    Client client(served.context.make_endpoint(), options);
    ServedCache::Options caching;
    caching.wait = kDeadline;
    TAUT_TRY(std::unique_ptr<ParameterCache> cache,
             ServedCache::open(client, *devices_[0], tables, caching));
    if (devices_.size() > 1) {
      const bool is_cpu = devices_[0]->shares_host_memory();
      const GroupOrder order = scenario_.nccl && !is_cpu ? GroupOrder::kAny : GroupOrder::kMembers;
      cache = std::make_unique<ReplicatedCache>(std::move(cache), devices_, tables,
                                                ReplicatedCache::Options{.order = order});
    }
    return loop(assets, replicas, *cache, clocks);
  }

  /// As a tool reads them, whatever became of the worker.
  static Tables values_at_shards(ServedJob& served, const model::Graph& graph) {
    Client reader(served.context.make_endpoint(), served.options(WorkerId(0)));
    Tables all;
    if (!reader.open(graph.parameters, kDeadline)) return all;
    for (const TableSpec& table : graph.parameters) {
      all.emplace_back(table.count());
      if (!reader.snapshot(table.id, all.back(), kDeadline)) all.back().clear();
    }
    return all;
  }

  const Scenario& scenario_;
  pb::Job job_;
  std::vector<Backend*> devices_;
  std::unique_ptr<PlannedBackend> planned_;
  Backend* planned_on_ = nullptr;
};

}  // namespace

std::span<const Scenario> scenarios() {
  return kScenarios;
}

Result<Tables> train(const Scenario& scenario, const Run& run, Tables* at_end) {
  Training training(scenario, run);
  return training.run(run.clocks, at_end);
}

std::string check_borders() {
  Backend& backend = device(0, {});
  const auto stream = backend.make_stream();
  // More than one part of an arena, with tails that the next buffer does not fit into.
  constexpr std::size_t kFloats = (27UL << 20U) / sizeof(float);
  constexpr std::size_t kBuffers = 5;
  {
    const DeviceBuffer from = backend.allocate_floats(kFloats);
    backend.fill(*stream, from.as<float>(), 3);
    const auto arena = SharedArena::create(Bytes(0), pinning(backend)).value();
    std::vector<std::span<float>> buffers;
    for (std::size_t i = 0; i < kBuffers; ++i) {
      auto* const memory = static_cast<float*>(arena->allocate(kFloats * sizeof(float)));
      buffers.emplace_back(memory, kFloats);
      backend.copy_to_host(*stream, from.as<float>(), buffers.back());
    }
    stream->finish();
    for (const std::span<float> buffer : buffers) {
      if (buffer.front() != 3 || buffer.back() != 3) return "a copy to pinned memory is missing";
      arena->deallocate(buffer.data(), buffer.size_bytes());
    }
  }
  {
    std::vector<float> host(1024, 5);
    const DeviceBuffer to = backend.allocate_floats(host.size());
    backend.pin_host(std::as_writable_bytes(std::span(host)));
    backend.copy_to_device(*stream, host, to.as<float>());
    backend.unpin_host(std::as_writable_bytes(std::span(host)));
    stream->finish();
  }
  const auto op = backend.make(SoftmaxLossSpec{.shape = {2, 3}, .axis = 1, .ignore_label = {}});
  const DeviceBuffer numbers = backend.allocate_floats(16);
  const DeviceSpan<float> all = numbers.as<float>();
  backend.fill(*stream, all, 7);  // no class
  op->forward(*stream, all.subspan(0, 6), all.subspan(6, 2), all.subspan(8, 6), all.subspan(14, 1));
  try {
    stream->finish();
  } catch (const std::invalid_argument&) {
    return "";
  }
  return "a label that is not a class was not reported";
}

}  // namespace taut::twin::test
