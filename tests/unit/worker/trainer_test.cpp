#include "worker/trainer.hpp"

#include <algorithm>
#include <future>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "common/log.hpp"
#include "proto/config/text.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/client/served_job.hpp"
#include "tests/unit/data/idx_bytes.hpp"
#include "worker/cache/initial_values.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/cache/replicated_cache.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"
#include "worker/engine/plan/wrapped_backend.hpp"
#include "worker/job_run.hpp"

namespace taut::worker {
namespace {

using Catch::Matchers::Contains;
using test::JobMaker;
using test::kDeadline;
using test::ServedJob;

constexpr std::uint32_t kWorkers = 2;
constexpr Clock kEnd{6};
const std::atomic<bool> kNoStop = false;

/// A job of two inner products on made-up images of 6 x 5.
class TinyJob {
 public:
  TinyJob() {
    for (const std::string part : {"train", "t10k"}) {
      folder_.write(part + "-images-idx3-ubyte", test::idx_images(40, 6, 5));
      folder_.write(part + "-labels-idx1-ubyte", test::idx_labels(40));
    }
    const std::string text =
        "name: 'tiny' seed: 42 "
        "net_param { "
        "  layer { name: 'in' type: 'Data' top: 'data' top: 'label' "
        "          data_param { batch_size: 4 } transform_param { scale: 0.00390625 } } "
        "  layer { name: 'one' type: 'InnerProduct' bottom: 'data' top: 'one' "
        "          inner_product_param { num_output: 7 weight_filler { type: 'xavier' } } } "
        "  layer { name: 'relu' type: 'ReLU' bottom: 'one' top: 'one' } "
        "  layer { name: 'two' type: 'InnerProduct' bottom: 'one' top: 'two' "
        "          inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } } "
        "  layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'two' bottom: 'label' top: 'loss' "
        "} "
        "} "
        "solver_param { base_lr: 0.1 momentum: 0.9 weight_decay: 0.001 max_iter: 6 } "
        "data { folder: '" +
        folder_.path().string() + "' }";
    REQUIRE(parse_text(text, "job", job).has_value());
  }
  [[nodiscard]] JobAssets assets() const {
    auto opened = JobAssets::open(job, kWorkers);
    INFO((opened ? std::string() : opened.error().message));
    REQUIRE(opened.has_value());
    return std::move(opened.value());
  }

  pb::Job job;

 private:
  test::TempFolder folder_;
};

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

Trainer::Options until(Clock end) {
  Trainer::Options options;
  options.end = end;
  return options;
}

std::vector<std::vector<float>> values_of(ParameterCache& cache, const model::Graph& graph) {
  std::vector<std::vector<float>> all;
  for (const TableSpec& table : graph.parameters) {
    all.emplace_back(table.count());
    REQUIRE(cache.snapshot(table.id, all.back()).has_value());
  }
  return all;
}

std::unique_ptr<LocalCache> local_cache(const TinyJob& tiny, const JobAssets& assets,
                                        Backend& backend, std::size_t replicas) {
  LocalCache::Options options;
  options.seed = tiny.job.seed();
  options.replicas = replicas;
  options.rule = to_update_rule(tiny.job.solver_param()).value();
  return std::make_unique<LocalCache>(backend, assets.train_graph().parameters, options);
}

/// A cache that loses its server at a clock.
class FailingCache final : public ParameterCache {
 public:
  FailingCache(ParameterCache& inner, Clock from) : inner_(inner), from_(from) {}
  Result<DeviceSpan<const float>> acquire(std::size_t replica, TableId table,
                                          Clock clock) override {
    if (clock >= from_) return make_error(ErrorCode::kStale, "stale incarnation");
    if (on_acquire) on_acquire();
    return inner_.acquire(replica, table, clock);
  }
  DeviceSpan<float> gradient(std::size_t replica, TableId table) override {
    return inner_.gradient(replica, table);
  }
  void publish(std::size_t replica, TableId table, Clock clock) override {
    inner_.publish(replica, table, clock);
  }
  void finish_clock(std::size_t replica, Clock clock) override {
    inner_.finish_clock(replica, clock);
  }
  Result<Clock> snapshot(TableId table, std::span<float> into) override {
    return inner_.snapshot(table, into);
  }
  Result<void> flush(Duration wait) override { return inner_.flush(wait); }
  const StalenessHistogram& staleness() const override { return inner_.staleness(); }

  std::function<void()> on_acquire;

 private:
  ParameterCache& inner_;
  const Clock from_;
};

/// Sets `stop` when a batch of a test was computed for the third time.
class StopInTest final : public Pace {
 public:
  void tested(std::int64_t /*records*/) override {
    if (++batches == 3) stop = true;
  }

  std::atomic<bool> stop = false;
  int batches = 0;
};

/// A cache whose snapshots are not finite.
class BrokenSnapshots final : public ParameterCache {
 public:
  explicit BrokenSnapshots(ParameterCache& inner) : inner_(inner) {}
  void compute_on(std::size_t replica, Stream& stream) override {
    inner_.compute_on(replica, stream);
  }
  Result<DeviceSpan<const float>> acquire(std::size_t replica, TableId table,
                                          Clock clock) override {
    return inner_.acquire(replica, table, clock);
  }
  DeviceSpan<float> gradient(std::size_t replica, TableId table) override {
    return inner_.gradient(replica, table);
  }
  void publish(std::size_t replica, TableId table, Clock clock) override {
    inner_.publish(replica, table, clock);
  }
  void finish_clock(std::size_t replica, Clock clock) override {
    inner_.finish_clock(replica, clock);
  }
  Result<Clock> snapshot(TableId table, std::span<float> into) override {
    TAUT_TRY(const Clock version, inner_.snapshot(table, into));
    std::ranges::fill(into, std::numeric_limits<float>::quiet_NaN());
    return version;
  }
  Result<void> flush(Duration wait) override { return inner_.flush(wait); }
  const StalenessHistogram& staleness() const override { return inner_.staleness(); }

 private:
  ParameterCache& inner_;
};

}  // namespace

TEST_CASE("the loop with servers ends in the bits of the loop without, under BSP", "[trainer]") {
  TinyJob tiny;
  const int batches = GENERATE(1, 3);
  tiny.job.mutable_solver_param()->set_iter_size(batches);
  const Trainer::Options whole = trainer_options(tiny.job);
  REQUIRE(whole.end == kEnd);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const std::atomic<bool> stop = false;

  std::vector<Replica> replicas;
  for (std::uint32_t slot = 0; slot < kWorkers; ++slot) {
    replicas.push_back(std::move(assets.make_replica(*backend, slot, kWorkers, Clock(0)).value()));
  }
  const auto local = local_cache(tiny, assets, *backend, kWorkers);
  ProgressBoard board;
  Trainer trainer(replicas, *local, nullptr, whole, board);
  REQUIRE(trainer.run(stop).value() == kEnd);
  CHECK(board.read().clock == kEnd);
  CHECK(board.read().images == 4 * kWorkers * 6 * static_cast<unsigned>(batches));
  const auto expected = values_of(*local, assets.train_graph());

  JobMaker maker(kWorkers, Slack(0), 2);
  *maker.state.mutable_definition() = tiny.job;
  ServedJob served(maker);
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    clients.push_back(served.client(worker));
  }
  std::vector<std::future<std::string>> running;
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
    running.push_back(std::async(std::launch::async, [&, worker]() -> std::string {
      const auto own = cpu();
      std::vector<Replica> one;
      auto replica = assets.make_replica(*own, worker, kWorkers, Clock(0));
      if (!replica) return replica.error().message;
      one.push_back(std::move(replica.value()));
      ServedCache::Options options;
      options.wait = kDeadline;
      auto cache =
          ServedCache::open(*clients[worker], *own, assets.train_graph().parameters, options);
      if (!cache) return cache.error().message;
      ProgressBoard progress;
      Trainer member(one, *cache.value(), nullptr, whole, progress);
      auto reached = member.run(stop);
      if (!reached) return reached.error().message;
      auto flushed = cache.value()->flush(kDeadline);
      return flushed ? "" : flushed.error().message;
    }));
  }
  for (auto& one : running) REQUIRE(one.get() == "");
  const auto reader = served.client(0);
  REQUIRE(reader->open(assets.train_graph().parameters, kDeadline).has_value());
  for (const TableSpec& table : assets.train_graph().parameters) {
    CAPTURE(table.name);
    std::vector<float> values(table.count());
    CHECK(reader->snapshot(table.id, values, kDeadline).value().version == kEnd);
    CHECK(test::same_bits(values, expected[table.id.value()]));
  }
}

TEST_CASE("devices that share a batch move parameters as one device does", "[trainer]") {
  const std::atomic<bool> stop = false;
  const auto train = [&](std::uint32_t count) {
    TinyJob tiny;
    auto opened = JobAssets::open(tiny.job, 1, count);
    REQUIRE(opened.has_value());
    const JobAssets assets = std::move(opened.value());
    std::vector<std::unique_ptr<Backend>> backends;
    std::vector<Backend*> devices;
    std::vector<Replica> replicas;
    for (std::uint32_t i = 0; i < count; ++i) {
      backends.push_back(cpu());
      devices.push_back(backends.back().get());
      replicas.push_back(std::move(assets.make_replica(*devices[i], 0, 1, Clock(0), i).value()));
    }
    std::unique_ptr<ParameterCache> cache = local_cache(tiny, assets, *devices[0], 1);
    if (count > 1) {
      cache = std::make_unique<ReplicatedCache>(
          std::move(cache), devices, assets.train_graph().parameters, ReplicatedCache::Options());
    }
    ProgressBoard board;
    Trainer trainer(replicas, *cache, nullptr, trainer_options(tiny.job), board);
    REQUIRE(trainer.run(stop).value() == kEnd);
    CHECK(board.read().images == 4 * 6);
    return std::pair(values_of(*cache, assets.train_graph()), board.read().loss);
  };
  // A clock draws the same four records, however many compute them.
  const auto [alone, alone_loss] = train(1);
  for (const std::uint32_t count : {2U, 4U}) {
    const auto [shared, shared_loss] = train(count);
    CHECK(shared_loss == Approx(alone_loss).epsilon(1e-4));
    for (std::size_t table = 0; table < alone.size(); ++table) {
      for (std::size_t i = 0; i < alone[table].size(); ++i) {
        REQUIRE(shared[table][i] == Approx(alone[table][i]).epsilon(1e-3).margin(1e-5));
      }
    }
  }
}

TEST_CASE("a batch that devices cannot divide is refused with both numbers", "[trainer]") {
  TinyJob tiny;
  const auto refused = JobAssets::open(tiny.job, 1, 3);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("a batch of 4 cannot be split over 3") != std::string::npos);
}

TEST_CASE("several small batches of a clock move parameters as one large batch", "[trainer]") {
  const auto backend = cpu();
  const std::atomic<bool> stop = false;
  const auto train = [&](int size, int batches) {
    TinyJob tiny;
    tiny.job.mutable_solver_param()->set_iter_size(batches);
    tiny.job.mutable_net_param()->mutable_layer(0)->mutable_data_param()->set_batch_size(
        static_cast<std::uint32_t>(size));
    const JobAssets assets = tiny.assets();
    std::vector<Replica> replicas;
    replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
    const auto cache = local_cache(tiny, assets, *backend, 1);
    ProgressBoard board;
    Trainer trainer(replicas, *cache, nullptr, trainer_options(tiny.job), board);
    REQUIRE(trainer.run(stop).value() == kEnd);
    CHECK(board.read().images == 8 * 6);
    return std::pair(values_of(*cache, assets.train_graph()), board.read().loss);
  };
  // A clock draws the same eight records, however they are cut.
  const auto [large, large_loss] = train(8, 1);
  const auto [halves, halves_loss] = train(4, 2);
  const auto [quarters, quarters_loss] = train(2, 4);
  CHECK(halves_loss == Approx(large_loss).epsilon(1e-4));
  CHECK(quarters_loss == Approx(large_loss).epsilon(1e-4));
  for (std::size_t table = 0; table < large.size(); ++table) {
    for (std::size_t i = 0; i < large[table].size(); ++i) {
      REQUIRE(halves[table][i] == Approx(large[table][i]).epsilon(1e-3).margin(1e-5));
      REQUIRE(quarters[table][i] == Approx(large[table][i]).epsilon(1e-3).margin(1e-5));
    }
  }
}

TEST_CASE("a device with its own memory copies batches from its own host memory", "[trainer]") {
  /// Remembers where its host memory is.
  class Pinning final : public WrappedBackend {
   public:
    using WrappedBackend::WrappedBackend;
    DeviceBuffer allocate(Bytes size, BufferKind kind, std::string_view name) override {
      return inner().allocate(size, kind, name);
    }
    HostBuffer allocate_host(Bytes size) override {
      HostBuffer block = inner().allocate_host(size);
      std::scoped_lock lock(mutex_);
      given_.insert(block.as<float>().data());
      return block;
    }
    bool gave(const float* address) {
      std::scoped_lock lock(mutex_);
      return given_.contains(address);
    }
    void on_call(Stream& /*stream*/, DeviceCall /*call*/) override {}

   private:
    std::mutex mutex_;
    std::set<const float*> given_;  // the loader's thread continues taking memory
  };
  const auto inner = cpu();
  Pinning backend(*inner);
  const TinyJob tiny;
  const Replica replica = std::move(tiny.assets().make_replica(backend, 0, 1, Clock(0)).value());
  const data::Batch batch = replica.loader->next(kDeadline).value();
  REQUIRE(batch.blobs.size() == 2);
  for (const auto& blob : batch.blobs) CHECK(backend.gave(blob.data()));
}

TEST_CASE("a worker that starts at a clock draws that clock's batches", "[trainer]") {
  TinyJob tiny;
  tiny.job.mutable_solver_param()->set_iter_size(2);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const Replica first = std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value());
  const Replica late = std::move(assets.make_replica(*backend, 0, 1, Clock(3)).value());
  std::vector<data::Batch> drawn(8);
  for (data::Batch& batch : drawn) batch = first.loader->next(kDeadline).value();
  CHECK(late.loader->next(kDeadline).value().blobs == drawn[6].blobs);
  CHECK(late.loader->next(kDeadline).value().blobs == drawn[7].blobs);
}

TEST_CASE("each test phase of a job is run on its own net", "[trainer]") {
  TinyJob tiny;
  pb::SolverParameter& solver = *tiny.job.mutable_solver_param();
  solver.add_test_iter(2);
  solver.add_test_iter(3);
  solver.add_test_state();
  solver.add_test_state()->add_stage("more");
  const JobAssets assets = tiny.assets();
  CHECK(assets.test_count() == 2);
  CHECK(assets.test_graph(2) == nullptr);
  const auto backend = cpu();
  const auto cache = local_cache(tiny, assets, *backend, 1);
  const auto phases = TestPhases::create(assets, *backend);
  REQUIRE(phases.has_value());
  const auto result = phases.value()->run(*cache, Clock(4), nullptr, kNoStop);
  REQUIRE(result.has_value());
  CHECK(result.value().clock == Clock(4));
  // Ten classes that nothing tells apart yet.
  CHECK(result.value().loss == Approx(2.3).margin(0.5));
}

TEST_CASE("the test at iteration 0 is of the initial values, whatever was applied since",
          "[trainer]") {
  TinyJob tiny;
  tiny.job.mutable_solver_param()->add_test_iter(2);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const auto phases = TestPhases::create(assets, *backend);
  REQUIRE(phases.has_value());
  const auto loss_at = [&](ParameterCache& cache, Clock clock) {
    const auto result = phases.value()->run(cache, clock, nullptr, kNoStop);
    REQUIRE(result.has_value());
    return result.value().loss;
  };
  const double initial = loss_at(*local_cache(tiny, assets, *backend, 1), Clock(1));

  std::vector<Replica> replicas;
  replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
  const auto trained = local_cache(tiny, assets, *backend, 1);
  const std::atomic<bool> stop = false;
  ProgressBoard board;
  Trainer trainer(replicas, *trained, nullptr, until(kEnd), board);
  REQUIRE(trainer.run(stop).has_value());
  CHECK(loss_at(*trained, Clock(0)) == initial);
  CHECK(loss_at(*trained, kEnd) != initial);
}

TEST_CASE("initial values are the ones that a parameter cache starts from", "[trainer]") {
  const TinyJob tiny;
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const auto cache = local_cache(tiny, assets, *backend, 1);
  const auto expected = values_of(*cache, assets.train_graph());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::vector<float> values(expected[i].size());
    const TableSpec& table = assets.train_graph().parameters[i];
    REQUIRE(read_initial_values(table, tiny.job.seed(), values).has_value());
    CHECK(values == expected[i]);
  }
}

TEST_CASE("initial values of a table that starts from a file are the file's", "[trainer]") {
  const test::TempFolder folder;
  const std::vector<float> stored = {1.5F, -2.0F, 0.25F};
  const std::string bytes(reinterpret_cast<const char*>(stored.data()), 3 * sizeof(float));
  folder.write("weights", "head" + bytes);
  TableSpec table;
  table.name = "weights";
  table.shape = {3};
  table.origin = TensorPlace{(folder.path() / "weights").string(), "", 4, ElementType::kF32};
  std::vector<float> values(3);
  REQUIRE(read_initial_values(table, 1, values).has_value());
  CHECK(values == stored);
  table.origin->file += " elsewhere";
  CHECK_FALSE(read_initial_values(table, 1, values).has_value());
}

TEST_CASE("a test's accuracy is one of several: the last that counts the fewest guesses",
          "[trainer]") {
  TinyJob tiny;
  tiny.job.mutable_solver_param()->add_test_iter(2);
  const auto add_accuracy = [&](const std::string& name, std::uint32_t guesses) {
    pb::LayerParameter& layer = *tiny.job.mutable_net_param()->add_layer();
    layer.set_name(name);
    layer.set_type("Accuracy");
    layer.add_bottom("two");
    layer.add_bottom("label");
    layer.add_top(name);
    layer.mutable_accuracy_param()->set_top_k(guesses);
  };
  const auto tested = [&] {
    const JobAssets assets = tiny.assets();
    const auto backend = cpu();
    const auto cache = local_cache(tiny, assets, *backend, 1);
    const auto phases = TestPhases::create(assets, *backend);
    REQUIRE(phases.has_value());
    const auto result = phases.value()->run(*cache, Clock(0), nullptr, kNoStop);
    REQUIRE(result.has_value());
    return result.value();
  };
  const TestResult without = tested();
  CHECK_FALSE(without.accuracy.has_value());
  REQUIRE(without.outputs.size() == 1);
  CHECK(without.outputs[0].name == "loss");
  CHECK(without.outputs[0].value == Approx(without.loss));

  add_accuracy("any", 10);
  CHECK(tested().accuracy.value() == 1);
  add_accuracy("first", 1);
  add_accuracy("again", 1);
  add_accuracy("also any", 10);
  const TestResult result = tested();
  REQUIRE(result.accuracy.has_value());
  REQUIRE(result.outputs.size() == 5);
  CHECK(result.outputs[1].name == "any");
  CHECK(result.outputs[1].value == 1);
  CHECK(result.outputs[3].name == "again");
  CHECK(result.accuracy.value() == result.outputs[3].value);
  CHECK(result.accuracy.value() < 1);
}

TEST_CASE("a test counts for a class only the batches with labels of it", "[trainer]") {
  TinyJob tiny;
  // Eight images with the labels 0 to 7, each in one of the two batches.
  tiny.job.mutable_solver_param()->add_test_iter(2);
  pb::LayerParameter& layer = *tiny.job.mutable_net_param()->add_layer();
  layer.set_name("accuracy");
  layer.set_type("Accuracy");
  layer.add_bottom("two");
  layer.add_bottom("label");
  layer.add_top("all");
  layer.add_top("each");
  // Some of ten guesses are right.
  layer.mutable_accuracy_param()->set_top_k(5);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const auto cache = local_cache(tiny, assets, *backend, 1);
  const auto phases = TestPhases::create(assets, *backend);
  REQUIRE(phases.has_value());
  const auto result = phases.value()->run(*cache, Clock(0), nullptr, kNoStop);
  REQUIRE(result.has_value());
  const auto& outputs = result.value().outputs;
  REQUIRE(outputs.size() == 12);
  double right = 0;
  int known = 0;
  for (const OutputMeans::Mean& mean : outputs) {
    if (!mean.name.starts_with("each[") || !mean.is_known) continue;
    CHECK((mean.value == 0 || mean.value == 1));
    right += mean.value;
    ++known;
  }
  CHECK(known == 8);
  CHECK(right > 0);
  CHECK(right / 8 == Approx(result.value().accuracy.value()));
}

TEST_CASE("a stopped run ends before its next clock", "[trainer]") {
  const TinyJob tiny;
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  std::vector<Replica> replicas;
  replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
  const auto cache = local_cache(tiny, assets, *backend, 1);
  std::atomic<bool> stop = false;
  Trainer::Options options = until(kEnd);
  options.straggle = [&](Clock clock, Duration /*compute*/) {
    stop = clock == Clock(2);
    return Duration(0);
  };
  ProgressBoard board;
  Trainer trainer(replicas, *cache, nullptr, options, board);
  CHECK(trainer.run(stop).value() == Clock(3));
}

TEST_CASE("a run that is stopped during a test ends before the test's next batch", "[trainer]") {
  TinyJob tiny;
  pb::SolverParameter& solver = *tiny.job.mutable_solver_param();
  solver.add_test_iter(100000);
  solver.set_test_interval(2);
  // A test of the initial values, or of others.
  const bool is_initial = GENERATE(true, false);
  solver.set_test_initialization(is_initial);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  std::vector<Replica> replicas;
  replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
  const auto cache = local_cache(tiny, assets, *backend, 1);
  StopInTest pace;
  const auto phases = TestPhases::create(assets, *backend, pace);
  REQUIRE(phases.has_value());
  ProgressBoard board;
  Trainer trainer(replicas, *cache, phases.value().get(), trainer_options(tiny.job), board);
  const auto ended = trainer.run(pace.stop);
  REQUIRE_FALSE(ended.has_value());
  CHECK(ended.error().code == ErrorCode::kClosed);
  CHECK(pace.batches == 3);
  CHECK(board.read().clock == Clock(is_initial ? 0 : 2));
  CHECK(board.read().tests.empty());
}

TEST_CASE("a run starts and ends at the given clocks", "[trainer]") {
  const TinyJob tiny;
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  std::vector<Replica> replicas;
  replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(4)).value()));
  const auto cache = local_cache(tiny, assets, *backend, 1);
  const std::atomic<bool> stop = false;
  Trainer::Options options = until(kEnd);
  options.start = Clock(4);
  ProgressBoard board;
  Trainer trainer(replicas, *cache, nullptr, options, board);
  CHECK(trainer.run(stop).value() == kEnd);
  CHECK(board.read().images == 4 * 2);
}

TEST_CASE("a run whose parameters are refused ends with the reason", "[trainer]") {
  const TinyJob tiny;
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  std::vector<Replica> replicas;
  replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
  const auto inner = local_cache(tiny, assets, *backend, 1);
  FailingCache cache(*inner, Clock(3));
  const std::atomic<bool> stop = false;
  ProgressBoard board;
  Trainer trainer(replicas, cache, nullptr, until(kEnd), board);
  const auto ended = trainer.run(stop);
  REQUIRE_FALSE(ended.has_value());
  CHECK(ended.error().code == ErrorCode::kStale);
  CHECK(board.read().clock == Clock(3));
}

TEST_CASE("a wait that still continues is counted, and so are those that have ended", "[trainer]") {
  ProgressBoard board;
  const TimePoint start = steady_now();
  CHECK(board.waited(start) == Duration(0));
  board.begin_wait(start);
  CHECK(board.waited(start + Duration(700)) == Duration(700));
  CHECK(board.end_wait(start + Duration(1000)) == Duration(1000));
  CHECK(board.waited(start + Duration(5000)) == Duration(1000));
  board.begin_wait(start + Duration(5000));
  CHECK(board.waited(start + Duration(5500)) == Duration(1500));
}

TEST_CASE("while the compute asks for parameters it waits, and not while it computes",
          "[trainer]") {
  const TinyJob tiny;
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  std::vector<Replica> replicas;
  replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
  const auto inner = local_cache(tiny, assets, *backend, 1);
  ProgressBoard board;
  const auto waits = [&board] {
    const TimePoint now = steady_now();
    return board.waited(now + Duration(1'000'000)) - board.waited(now) == Duration(1'000'000);
  };
  FailingCache cache(*inner, kEnd);
  int asked = 0;
  cache.on_acquire = [&] {
    ++asked;
    CHECK(waits());
  };
  Trainer::Options options = until(kEnd);
  options.straggle = [&](Clock /*clock*/, Duration /*compute*/) {
    CHECK_FALSE(waits());
    return Duration(0);
  };
  const std::atomic<bool> stop = false;
  Trainer trainer(replicas, cache, nullptr, options, board);
  REQUIRE(trainer.run(stop).has_value());
  CHECK(asked > 0);
  CHECK_FALSE(waits());
  CHECK(board.read().wait <= board.waited(steady_now()));
}

TEST_CASE("a training that ends with parameters that are not finite has diverged", "[trainer]") {
  TinyJob tiny;
  tiny.job.mutable_solver_param()->set_base_lr(50);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const auto cache = local_cache(tiny, assets, *backend, 1);
  std::vector<float> values(assets.train_graph().parameters[0].count());
  REQUIRE(cache->snapshot(TableId(0), values).has_value());
  const std::atomic<bool> stop = false;
  ProgressBoard board;
  const auto digest = [&] {
    return digest_parameters(*cache, assets.train_graph(), Clock(0), Duration(0), stop,
                             DivergenceRule(tiny.job), board);
  };
  CHECK(digest().has_value());
  CHECK_FALSE(board.read().diverged);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  cache->write(TableId(0), values);
  const auto refused = digest();
  REQUIRE_FALSE(refused.has_value());
  CHECK_THAT(refused.error().message,
             Contains("has values that are not finite at iteration 0: the training has diverged; "
                      "try a base_lr below 50, or clip_gradients"));
  CHECK(board.read().diverged);
}

TEST_CASE("a test whose loss is no number ends the run", "[trainer]") {
  TinyJob tiny;
  pb::SolverParameter& solver = *tiny.job.mutable_solver_param();
  solver.add_test_iter(1);
  solver.set_test_interval(2);
  solver.set_test_initialization(false);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  const auto phases = TestPhases::create(assets, *backend);
  REQUIRE(phases.has_value());
  const std::atomic<bool> stop = false;
  const auto run = [&](ProgressBoard& board) {
    const auto inner = local_cache(tiny, assets, *backend, 1);
    // Its snapshots are not finite, and what it trains with is.
    BrokenSnapshots cache(*inner);
    std::vector<Replica> replicas;
    replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
    Trainer trainer(replicas, cache, phases.value().get(), trainer_options(tiny.job), board);
    return trainer.run(stop);
  };
  ProgressBoard board;
  const auto ended = run(board);
  REQUIRE_FALSE(ended.has_value());
  CHECK_THAT(ended.error().message, Contains("the loss of the test is nan at iteration 2: the "
                                             "training has diverged; try a base_lr below 0.1"));
  CHECK(board.read().diverged);
}

TEST_CASE("on_divergence: CONTINUE trains to the end, and logs the first number that is not finite",
          "[trainer]") {
  TinyJob tiny;
  tiny.job.set_on_divergence(pb::Job::CONTINUE);
  pb::SolverParameter& solver = *tiny.job.mutable_solver_param();
  solver.set_base_lr(1e30F);
  solver.set_max_iter(20);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  std::vector<Replica> replicas;
  replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
  const auto cache = local_cache(tiny, assets, *backend, 1);
  const std::atomic<bool> stop = false;
  ProgressBoard board;
  REQUIRE(log::start({.role = "worker", .name = "w0", .file = ""}).has_value());
  const std::uint64_t before = log::position();
  Trainer trainer(replicas, *cache, nullptr, trainer_options(tiny.job), board);
  const auto ended = trainer.run(stop);
  REQUIRE(ended.has_value());
  CHECK(ended.value() == Clock(20));
  const auto digest = digest_parameters(*cache, assets.train_graph(), Clock(20), Duration(0), stop,
                                        DivergenceRule(tiny.job), board);
  CHECK(digest.has_value());
  CHECK(board.read().diverged);
  const std::string text = log::read_from(before, 1U << 16U).text;
  const std::size_t first = text.find("the training has diverged; try a base_lr below 1e+30");
  REQUIRE(first != std::string::npos);
  CHECK(text.find("it continues, as on_divergence says") != std::string::npos);
  CHECK(text.find("has diverged", first + 20) == std::string::npos);
}

TEST_CASE("a loss that is no number ends the run with what to try", "[trainer]") {
  TinyJob tiny;
  tiny.job.mutable_solver_param()->set_base_lr(1e30F);
  const JobAssets assets = tiny.assets();
  const auto backend = cpu();
  std::vector<Replica> replicas;
  replicas.push_back(std::move(assets.make_replica(*backend, 0, 1, Clock(0)).value()));
  const auto cache = local_cache(tiny, assets, *backend, 1);
  const std::atomic<bool> stop = false;
  ProgressBoard board;
  Trainer trainer(replicas, *cache, nullptr, until(Clock(50)), board);
  const auto ended = trainer.run(stop);
  REQUIRE_FALSE(ended.has_value());
  CHECK(ended.error().message.find("diverged") != std::string::npos);
  CHECK(ended.error().message.find("base_lr") != std::string::npos);
}

}  // namespace taut::worker
