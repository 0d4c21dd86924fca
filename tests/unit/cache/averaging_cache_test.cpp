#include "worker/cache/averaging_cache.hpp"

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/ssp/policies/averaging.hpp"
#include "proto/config/settle_policies.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

using namespace taut;
using test::JobMaker;
using test::kDeadline;
using test::ServedJob;

namespace {

using Values = std::vector<double>;  // one table's, in the reference's arithmetic

constexpr std::uint32_t kWorkers = 3;
constexpr std::int64_t kClocks = 10;
constexpr std::size_t kCount = 6;

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

TableSpec only_table() {
  return test::make_table(0, {kCount});
}

JobMaker bsp_job(float momentum = 0) {
  JobMaker maker(kWorkers);
  maker.state.mutable_definition()->mutable_consistency()->set_mode(pb::Consistency::BSP);
  maker.solver().set_base_lr(0.125F);
  maker.solver().set_momentum(momentum);
  maker.solver().set_max_iter(kClocks);
  return maker;
}

/// What a worker's compute makes of its values: it depends on them, so that who trains on what is
/// seen in the result.
float gradient_at(std::uint32_t worker, std::int64_t clock, std::size_t i, double value) {
  return static_cast<float>(0.5 * value) + test::gradient_of(worker, clock, kCount)[i];
}

/// Trains all workers with averaging caches, and returns the shared values and each worker's own.
struct Trained {
  std::vector<float> shared;
  std::vector<std::vector<float>> own;
};

std::vector<float> read(Backend& backend, Stream& stream, DeviceSpan<const float> values) {
  std::vector<float> read(values.size());
  backend.copy_to_host(stream, values, read);
  stream.finish();
  return read;
}

std::string train_one(Client& client, Backend& backend, AveragingCache::Options options,
                      std::uint32_t worker, Trained& trained) {
  const TableSpec table = only_table();
  const auto stream = backend.make_stream();
  options.wait = kDeadline;
  auto cache = AveragingCache::open(client, backend, {table}, options);
  if (!cache) return cache.error().message;
  AveragingCache& parameters = *cache.value();
  parameters.compute_on(0, *stream);
  std::vector<float> gradient(kCount);
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    if (const auto begun = parameters.begin_clock(Clock(clock)); !begun) {
      return begun.error().message;
    }
    const bool has_met = clock > 0 && options.schedule.pushes_at(Clock(clock - 1));
    if (options.exchange == Exchange::kPeriodic && has_met) {
      std::vector<float> tested(kCount);
      const auto version = parameters.snapshot(table.id, tested);
      if (!version) return version.error().message;
      if (version.value() < Clock(clock)) return "what is tested is of before the meeting";
    }
    const auto values = parameters.acquire(0, table.id, Clock(clock));
    if (!values) return values.error().message;
    const std::vector<float> now = read(backend, *stream, values.value());
    for (std::size_t i = 0; i < kCount; ++i) gradient[i] = gradient_at(worker, clock, i, now[i]);
    backend.copy_to_device(*stream, gradient, parameters.gradient(0, table.id));
    stream->finish();
    parameters.publish(0, table.id, Clock(clock));
    parameters.finish_clock(0, Clock(clock));
  }
  if (const auto flushed = parameters.flush(kDeadline); !flushed) return flushed.error().message;
  const auto last = parameters.acquire(0, table.id, Clock(kClocks));
  if (!last) return last.error().message;
  trained.own[worker] = read(backend, *stream, last.value());
  if (worker == 0) {
    trained.shared.resize(kCount);
    const TimePoint deadline = steady_now() + kDeadline;
    while (true) {
      const auto version = parameters.snapshot(table.id, trained.shared);
      if (!version) return version.error().message;
      if (version.value() == Clock(kClocks)) break;
      if (steady_now() > deadline) return "the others have not come to the end";
    }
  }
  return "";
}

/// late  trains on a device with its own memory, whose work is done late
Trained train(const JobMaker& job, bool late = false) {
  ServedJob served(job);
  const Policies policies = to_policies(served.job.state.definition()).value();
  AveragingCache::Options options;
  options.rule = to_update_rule(served.job.solver()).value();
  options.exchange = policies.find<Averaging>()->exchange();
  options.moving_rate = policies.find<Averaging>()->moving_rate();
  options.schedule = policies.schedule();
  std::vector<std::unique_ptr<Backend>> hosts;
  std::vector<std::unique_ptr<Backend>> devices;
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    hosts.push_back(cpu());
    clients.push_back(served.client(i));
    if (late) {
      devices.push_back(std::make_unique<test::LateBackend>(*hosts.back(),
                                                            test::LateBackend::Options{.seed = i}));
    }
  }
  Trained trained;
  trained.own.resize(kWorkers);
  std::vector<std::future<std::string>> running;
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    running.push_back(std::async(std::launch::async, [&, i] {
      return train_one(*clients[i], late ? *devices[i] : *hosts[i], options, i, trained);
    }));
  }
  for (auto& one : running) REQUIRE(one.get() == "");
  return trained;
}

Values initial() {
  std::vector<float> values(kCount);
  const TableSpec table = only_table();
  math::fill(table.filler, 42, table.name, 0, values);
  return {values.begin(), values.end()};
}

/// One clock of momentum SGD on a worker's own values.
void descend(Values& values, Values& velocity, std::uint32_t worker, std::int64_t clock,
             double momentum) {
  for (std::size_t i = 0; i < kCount; ++i) {
    velocity[i] = momentum * velocity[i] + 0.125 * gradient_at(worker, clock, i, values[i]);
    values[i] -= velocity[i];
  }
}

void check_close(const std::vector<float>& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).margin(1e-5));
}

}  // namespace

TEST_CASE("periodic averaging moves all workers to their mean, and momentum stays their own",
          "[averaging]") {
  for (const std::uint32_t interval : {1U, 4U, 25U}) {
    CAPTURE(interval);
    JobMaker job = bsp_job(0.9F);
    job.state.mutable_definition()
        ->mutable_consistency()
        ->mutable_periodic_averaging()
        ->set_interval(interval);
    const Trained trained = train(job);

    std::vector<Values> own(kWorkers, initial());
    std::vector<Values> velocity(kWorkers, Values(kCount, 0));
    for (std::int64_t clock = 0; clock < kClocks; ++clock) {
      for (std::uint32_t w = 0; w < kWorkers; ++w) descend(own[w], velocity[w], w, clock, 0.9);
      if ((clock + 1) % interval != 0 && clock + 1 != kClocks) continue;
      Values mean(kCount, 0);
      for (const Values& one : own) {
        for (std::size_t i = 0; i < kCount; ++i) mean[i] += one[i] / kWorkers;
      }
      own.assign(kWorkers, mean);
    }
    check_close(trained.shared, own[0]);
    for (const auto& one : trained.own) CHECK(test::same_bits(one, trained.shared));
  }
}

TEST_CASE("periodic averaging at every clock with plain SGD is BSP, but for rounding",
          "[averaging]") {
  JobMaker job = bsp_job();
  job.state.mutable_definition()->mutable_consistency()->mutable_periodic_averaging()->set_interval(
      1);
  const Trained trained = train(job);
  Values bsp = initial();
  for (std::int64_t clock = 0; clock < kClocks; ++clock) {
    Values mean(kCount, 0);
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      for (std::size_t i = 0; i < kCount; ++i) {
        mean[i] += static_cast<double>(gradient_at(w, clock, i, bsp[i])) / kWorkers;
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) bsp[i] -= 0.125 * mean[i];
  }
  check_close(trained.shared, bsp);
}

TEST_CASE("periodic averaging ends in the same bits every time", "[averaging]") {
  JobMaker job = bsp_job(0.9F);
  job.state.mutable_definition()->mutable_consistency()->mutable_periodic_averaging()->set_interval(
      3);
  const Trained first = train(job);
  CHECK(test::same_bits(first.shared, train(job).shared));
}

TEST_CASE("elastic averaging ties every worker's own values to the shared ones", "[averaging]") {
  for (const std::uint32_t interval : {1U, 4U}) {
    CAPTURE(interval);
    JobMaker job = bsp_job(0.5F);
    pb::ElasticAveraging& elastic =
        *job.state.mutable_definition()->mutable_consistency()->mutable_elastic_averaging();
    elastic.set_interval(interval);
    elastic.set_moving_rate(0.25F);
    const Trained trained = train(job);

    Values shared = initial();
    std::vector<Values> own(kWorkers, shared);
    std::vector<Values> velocity(kWorkers, Values(kCount, 0));
    for (std::int64_t clock = 0; clock < kClocks; ++clock) {
      for (std::uint32_t w = 0; w < kWorkers; ++w) descend(own[w], velocity[w], w, clock, 0.5);
      if ((clock + 1) % interval != 0 && clock + 1 != kClocks) continue;
      Values next = shared;
      for (Values& one : own) {
        for (std::size_t i = 0; i < kCount; ++i) {
          const double pull = 0.25 * (one[i] - shared[i]);
          one[i] -= pull;
          next[i] += pull;
        }
      }
      shared = next;
    }
    check_close(trained.shared, shared);
    for (std::uint32_t w = 0; w < kWorkers; ++w) check_close(trained.own[w], own[w]);
    CHECK_FALSE(test::same_bits(trained.own[0], trained.own[1]));
  }
}

TEST_CASE("averaging on a device with its own memory ends in the host's bits", "[averaging]") {
  for (const bool elastic : {false, true}) {
    CAPTURE(elastic);
    JobMaker job = bsp_job(0.9F);
    pb::Consistency& consistency = *job.state.mutable_definition()->mutable_consistency();
    if (elastic) {
      consistency.mutable_elastic_averaging()->set_interval(3);
      consistency.mutable_elastic_averaging()->set_moving_rate(0.25F);
    } else {
      consistency.mutable_periodic_averaging()->set_interval(3);
    }
    const Trained local = train(job);
    const Trained served = train(job, true);
    CHECK(test::same_bits(served.shared, local.shared));
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      CHECK(test::same_bits(served.own[w], local.own[w]));
    }
  }
}
