#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/log.hpp"
#include "tests/unit/worker/tiny_job.hpp"
#include "worker/parameter_digest.hpp"

namespace taut::worker {
namespace {

using Catch::Matchers::Contains;
using test::cpu;
using test::local_cache;
using test::TinyJob;
using test::until;

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
