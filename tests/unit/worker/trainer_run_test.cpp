#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "tests/unit/worker/tiny_job.hpp"

namespace taut::worker {
namespace {

using test::cpu;
using test::kEnd;
using test::local_cache;
using test::TinyJob;
using test::until;

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

}  // namespace

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

}  // namespace taut::worker
