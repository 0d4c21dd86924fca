// The cache of a worker that exchanges with others, in a group of one.
#include "worker/cache/group_cache.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

using namespace taut;
using test::JobMaker;
using test::kDeadline;
using test::ServedJob;

namespace {

constexpr std::size_t kCount = 4;
constexpr float kRate = 0.125F;

/// Trains with Adam from a clock on. With equal gradients each of its steps is as long as the rate,
/// if the applications are counted from where the moments were zero.
class Exchanging {
 public:
  struct Options {
    /// Clocks of a synchronous gossip before the worker's own first; nullopt: it sums.
    std::optional<std::int64_t> joins_after = std::nullopt;
    /// The times of a device with its own memory; nullopt: the CPU.
    std::optional<std::uint64_t> device = std::nullopt;
  };
  explicit Exchanging(Clock start) : Exchanging(start, Options()) {}
  Exchanging(Clock start, const Options& how) : clock_(start), served_(job_from(start)) {
    BackendOptions of_backend;
    of_backend.device = DeviceKind::kCpu;
    of_backend.threads = 1;
    cpu_ = make_cpu_backend(of_backend);
    if (how.device) late_.emplace(*cpu_, test::LateBackend::Options{.seed = *how.device});
    backend_ = late_ ? static_cast<Backend*>(&*late_) : cpu_.get();
    stream_ = backend_->make_stream();
    client_ = served_.client(0);
    collective::RankEndpoint rank =
        collective::listen_as_rank("127.0.0.1:0", false, board_).value();
    pb::WorkerJob job;
    job.mutable_group()->set_number(1);
    *job.mutable_group()->add_ranks()->mutable_place() = rank.place;
    board_.post(job);
    GroupCache::Options options;
    options.start = start;
    options.rule = to_update_rule(served_.job.solver()).value();
    options.schedule.interval = 1000;
    options.wait = kDeadline;
    options.group.first = start + how.joins_after.value_or(0);
    if (how.joins_after) options.group.graph = collective::Graph::kRing;
    auto opened = GroupCache::open(*client_, *backend_, {table()}, std::move(options),
                                   std::move(rank), board_);
    REQUIRE(opened.has_value());
    cache = std::move(opened.value());
    cache->compute_on(0, *stream_);
  }

  /// How far a clock moves the first value.
  float step() {
    const float before = first_value();
    backend_->copy_to_device(*stream_, gradient_, cache->gradient(0, TableId(0)));
    cache->publish(0, TableId(0), clock_);
    cache->finish_clock(0, clock_);
    clock_ = clock_.next();
    return before - first_value();
  }

 private:
  static TableSpec table() { return test::make_table(0, {kCount}); }
  static JobMaker job_from(Clock start) {
    JobMaker maker(1);
    maker.member(WorkerId(0)).set_join_clock(start.value());
    maker.solver().set_type("Adam");
    maker.solver().set_base_lr(kRate);
    maker.solver().set_momentum(0.9F);
    maker.solver().set_max_iter(2000);
    return maker;
  }
  float first_value() {
    REQUIRE(cache->begin_clock(clock_).value() == clock_);
    const auto values = cache->acquire(0, TableId(0), clock_);
    REQUIRE(values.has_value());
    std::vector<float> read(kCount);
    backend_->copy_to_host(*stream_, values.value(), read);
    stream_->finish();
    return read[0];
  }

  Clock clock_;
  ServedJob served_;
  const std::vector<float> gradient_ = std::vector<float>(kCount, 1.0F);
  std::unique_ptr<Backend> cpu_;
  std::optional<test::LateBackend> late_;
  Backend* backend_ = nullptr;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Client> client_;
  collective::RankBoard board_;

 public:
  std::unique_ptr<GroupCache> cache;  // ends before what it uses
};

}  // namespace

TEST_CASE("workers that exchange count a rule's applications from where its state was zero",
          "[cache][replicas]") {
  // As after a resume with another number of workers, which drops the solver's state.
  Exchanging first(Clock(1000));
  CHECK(first.step() == Approx(kRate).epsilon(1e-3));
  CHECK(first.step() == Approx(kRate).epsilon(1e-3));
  // Values, two moments, and how often the rule was applied.
  const std::vector<std::vector<float>> own = first.cache->own_state(Clock(1002));
  REQUIRE(own.size() == 4);
  CHECK(own.back() == std::vector<float>{2.0F});
  Exchanging second(Clock(1002));
  REQUIRE(second.cache->restore(own));
  CHECK(second.step() == Approx(kRate).epsilon(1e-3));
}

TEST_CASE(
    "a worker resumes with a state that has more applications of the rule than its job clocks",
    "[cache][replicas]") {
  Exchanging further(Clock(1000));
  for (int i = 0; i < 4; ++i) CHECK(further.step() == Approx(kRate).epsilon(1e-3));
  // As of a worker that joined at clock 0 and took the state of one that was two clocks ahead.
  Exchanging resumed(Clock(2));
  REQUIRE(resumed.cache->restore(further.cache->own_state(Clock(1004))));
  CHECK(resumed.step() == Approx(kRate).epsilon(1e-3));
  CHECK(resumed.cache->own_state(Clock(3)).back() == std::vector<float>{5.0F});
}

TEST_CASE("clocks that a worker only averages before its own first count as no applications",
          "[cache][replicas]") {
  constexpr int kJoinsAfter = 3;
  Exchanging worker(Clock(1000), {.joins_after = kJoinsAfter});
  for (int i = 0; i < kJoinsAfter; ++i) CHECK(worker.step() == 0);
  CHECK(worker.step() == Approx(kRate).epsilon(1e-3));
  CHECK(worker.step() == Approx(kRate).epsilon(1e-3));
  CHECK(worker.cache->own_state(Clock(1005)).back() == std::vector<float>{2.0F});
}

TEST_CASE("the state of a worker that exchanges is refused where it does not fit",
          "[cache][replicas]") {
  Exchanging worker(Clock(10));
  std::vector<std::vector<float>> own = worker.cache->own_state(Clock(10));
  REQUIRE(own.size() == 4);
  using Limits = std::numeric_limits<float>;
  for (const float applied : {-1.0F, Limits::max(), Limits::infinity(), Limits::quiet_NaN()}) {
    own.back()[0] = applied;
    CHECK_FALSE(worker.cache->restore(own));
  }
  // An earlier build does not say how often: at each clock of the job.
  own.pop_back();
  CHECK(worker.cache->restore(own));
  own.pop_back();
  CHECK_FALSE(worker.cache->restore(own));
}

TEST_CASE("a device's gradients are summed when they are copied", "[cache][replicas]") {
  for (const std::uint64_t seed : {0U, 1U, 2U, 3U}) {
    Exchanging on_device(Clock(0), {.device = seed});
    Exchanging on_cpu(Clock(0));
    for (int clock = 0; clock < 4; ++clock) {
      const float moved = on_device.step();
      CHECK(moved == Approx(kRate).epsilon(1e-3));
      CHECK(moved == on_cpu.step());
    }
  }
}
