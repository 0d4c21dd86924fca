// The training loop on a device that computes while the host continues.
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "proto/config/job_state.hpp"
#include "proto/config/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/worker/small_training.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/training/trainer.hpp"

namespace taut::worker {
namespace {

constexpr std::int64_t kClocks = 20;

pb::Job tiny_job() {
  pb::Job job;
  job.set_seed(3);
  constexpr const char* kNet = R"(
    layer { name: 'made up' type: 'DummyData' top: 'data' top: 'label'
      dummy_data_param { shape { dim: 4 dim: 9 } shape { dim: 4 }
                         data_filler { type: 'gaussian' std: 1 } data_filler { type: 'constant' }
                         classes: 0 classes: 3 } }
    layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
            inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
    layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' })";
  REQUIRE(parse_text(kNet, "net", *job.mutable_net_param()).has_value());
  job.mutable_solver_param()->set_base_lr(0.1F);
  return job;
}

struct Seen {
  std::vector<std::int64_t> recorded;  // clocks, when each clock begins
  ProgressReport end;
  std::vector<float> values;
};

struct Training {
  int batches = 1;
  std::function<bool(Clock)> is_idle_before = {};
};

Seen train(Backend& backend, const Training& training) {
  pb::Job job = tiny_job();
  job.mutable_solver_param()->set_iter_size(training.batches);
  const JobAssets assets = JobAssets::open(job, 1).value();
  std::vector<Replica> replicas;
  replicas.push_back(assets.make_replica(backend, 0, 1, Clock(0)).value());
  LocalCache::Options caching;
  caching.seed = job.seed();
  caching.rule = to_update_rule(job.solver_param()).value();
  LocalCache cache(backend, assets.train_graph().parameters, caching);
  Seen seen;
  ProgressBoard board;
  Trainer::Options options;
  options.end = Clock(kClocks);
  options.batches = training.batches;
  options.is_idle_before = training.is_idle_before;
  options.before_clock = [&](Clock, Clock) { seen.recorded.push_back(board.read().clock.value()); };
  Trainer trainer(replicas, cache, nullptr, options, board);
  const std::atomic<bool> stop = false;
  REQUIRE(trainer.run(stop).has_value());
  seen.end = board.read();
  seen.values.resize(assets.train_graph().parameters[0].count());
  REQUIRE(cache.snapshot(TableId(0), seen.values).has_value());
  return seen;
}

}  // namespace

TEST_CASE("the host is ahead of a device with its own memory, with the same numbers", "[trainer]") {
  const auto host = test::one_thread();
  for (const int batches : {1, 3}) {
    const Seen expected = train(*host, {.batches = batches});
    for (std::int64_t clock = 0; clock < kClocks; ++clock) {
      CHECK(expected.recorded[static_cast<std::size_t>(clock)] == clock);
    }
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(seed, batches);
      test::LateBackend late(*host, {.seed = seed});
      const Seen seen = train(late, {.batches = batches});
      for (std::int64_t clock = 0; clock < kClocks; ++clock) {
        const std::int64_t recorded = seen.recorded[static_cast<std::size_t>(clock)];
        CHECK(recorded <= clock);
        // A feed's bound holds it back, so that there is a place for each loss.
        CHECK(clock - recorded < static_cast<std::int64_t>(Trainer::kMaxUnread));
      }
      CHECK(seen.end.clock == Clock(kClocks));
      CHECK(seen.end.loss == expected.end.loss);
      CHECK(seen.end.images == expected.end.images);
      CHECK(seen.values == expected.values);
    }
  }
}

TEST_CASE("ahead of the latest of devices the host waits once in a clock", "[trainer]") {
  const auto host = test::one_thread();
  test::LateBackend late(*host, {.seed = 0});
  std::vector<std::uint64_t> waits;
  const Seen seen = train(late, {.is_idle_before = [&](Clock) {
                            waits.push_back(late.waits());
                            return false;
                          }});
  CHECK(waits.back() - waits.front() < kClocks);
  CHECK(seen.recorded.back() < kClocks - 1);
}

TEST_CASE("the host waits for a device where its nets have to be idle", "[trainer]") {
  const auto host = test::one_thread();
  test::LateBackend late(*host, {.seed = 0});
  const Seen seen = train(late, {.is_idle_before = [](Clock clock) { return clock == Clock(7); }});
  CHECK(seen.recorded[6] < 6);
  CHECK(seen.recorded[7] == 7);
}

}  // namespace taut::worker
