#include "worker/cache/replicated_cache.hpp"

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/ssp/policies/averaging.hpp"
#include "proto/config/settle_policies.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/cache/averaging_cache.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::same_bits;
using test::ServedJob;

using Tables = std::vector<std::vector<float>>;

constexpr std::int64_t kClocks = 5;

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

std::vector<TableSpec> tables() {
  return {test::make_table(0, {3, 5}), test::make_table(1, {7}),
          test::make_table(2, {4}, TableKind::kFrozen),
          test::make_table(3, {6}, TableKind::kAveraged)};
}

JobMaker job_of_one() {
  JobMaker job(1, Slack(0), 2);
  job.solver().set_momentum(0.9F);
  job.solver().set_base_lr(0.05F);
  return job;
}

/// What replicas' nets would do with a cache: all of them read a table before any continues to the
/// next, and what they make of it depends on the replica, the clock and what was read.
class Replicas {
 public:
  Replicas(std::span<Backend* const> devices, ParameterCache& cache) : cache_(cache) {
    for (Backend* const device : devices) {
      devices_.push_back(device);
      streams_.push_back(device->make_stream());
      cache.compute_on(streams_.size() - 1, *streams_.back());
    }
  }

  void train() {
    const std::vector<TableSpec> all = tables();
    for (std::int64_t clock = 0; clock < kClocks; ++clock) {
      REQUIRE(cache_.begin_clock(Clock(clock)).value() == Clock(clock));
      std::vector<std::vector<DeviceSpan<const float>>> values(devices_.size());
      for (const TableSpec& table : all) {
        for (std::size_t i = 0; i < devices_.size(); ++i) {
          values[i].push_back(cache_.acquire(i, table.id, Clock(clock)).value());
        }
      }
      // NOLINTNEXTLINE(modernize-loop-convert): clang 14 does not compile views of this libstdc++
      for (auto table = all.rbegin(); table != all.rend(); ++table) {
        if (table->kind == TableKind::kFrozen) continue;
        for (std::size_t i = 0; i < devices_.size(); ++i) {
          make_gradient(i, *table, clock, values[i][table->id.value()]);
        }
      }
      for (std::size_t i = 0; i < devices_.size(); ++i) cache_.finish_clock(i, Clock(clock));
    }
  }

  /// The values that a replica reads after the last clock.
  Tables read(std::size_t replica) {
    Tables read;
    for (const TableSpec& table : tables()) {
      std::optional<DeviceSpan<const float>> values;
      for (std::size_t i = 0; i <= replica; ++i) {
        values = cache_.acquire(i, table.id, Clock(kClocks)).value();
      }
      devices_[replica]->copy_to_host(*streams_[replica], *values,
                                      read.emplace_back(table.count()));
      streams_[replica]->finish();
    }
    return read;
  }

 private:
  void make_gradient(std::size_t replica, const TableSpec& table, std::int64_t clock,
                     DeviceSpan<const float> values) {
    const DeviceSpan<float> gradient = cache_.gradient(replica, table.id);
    const auto worker = static_cast<std::uint32_t>(replica);
    gradients_.push_back(test::gradient_of(worker, clock, gradient.size(), table.id.value()));
    devices_[replica]->copy_to_device(*streams_[replica], gradients_.back(), gradient);
    if (table.kind == TableKind::kTrained) {
      devices_[replica]->add(*streams_[replica], values, gradient);
    }
    cache_.publish(replica, table.id, Clock(clock));
  }

  ParameterCache& cache_;
  std::vector<Backend*> devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::deque<std::vector<float>> gradients_;  // stays until the streams have passed
};

LocalCache::Options local_options(JobMaker& job, std::size_t replicas) {
  LocalCache::Options options;
  options.seed = job.state.definition().seed();
  options.replicas = replicas;
  options.rule = to_update_rule(job.solver()).value();
  return options;
}

/// The same sums on one device, which needs no copies of anything.
Tables expected(JobMaker& job, std::size_t replicas) {
  const auto backend = cpu();
  LocalCache cache(*backend, tables(), local_options(job, replicas));
  const std::vector<Backend*> devices(replicas, backend.get());
  Replicas nets(devices, cache);
  nets.train();
  return nets.read(0);
}

void check_close(const Tables& one, const Tables& other) {
  REQUIRE(one.size() == other.size());
  for (std::size_t t = 0; t < one.size(); ++t) {
    CAPTURE(t);
    for (std::size_t i = 0; i < one[t].size(); ++i) {
      REQUIRE(one[t][i] == Approx(other[t][i]).epsilon(1e-5).margin(1e-6));
    }
  }
}

}  // namespace

TEST_CASE("replicas on separate devices move parameters as replicas on one do",
          "[replicated_cache]") {
  for (const std::size_t count : {2U, 3U}) {
    JobMaker job = job_of_one();
    std::vector<std::unique_ptr<Backend>> backends;
    std::vector<Backend*> devices;
    for (std::size_t i = 0; i < count; ++i) {
      backends.push_back(cpu());
      devices.push_back(backends.back().get());
    }
    ReplicatedCache cache(
        std::make_unique<LocalCache>(*devices[0], tables(), local_options(job, 1)), devices,
        tables(), {});
    Replicas nets(devices, cache);
    nets.train();
    const Tables first = nets.read(0);
    check_close(first, expected(job, count));
    for (std::size_t i = 1; i < count; ++i) {
      const Tables other = nets.read(i);
      for (std::size_t t = 0; t < first.size(); ++t) CHECK(same_bits(first[t], other[t]));
    }
  }
}

TEST_CASE("an exchange waits for its operands, however late devices work", "[replicated_cache]") {
  const auto host = cpu();
  JobMaker job = job_of_one();
  const Tables reference = expected(job, 3);
  for (const bool overlap : {true, false}) {
    std::optional<Tables> before;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(overlap, seed);
      ServedJob served(job);
      const auto client = served.client(0);
      test::LateBackend late(*host, {.seed = seed});
      const std::array<Backend*, 3> devices = {&late, &late, &late};
      ServedCache::Options options;
      options.wait = kDeadline;
      options.overlap = overlap;
      auto behind = ServedCache::open(*client, late, tables(), options);
      REQUIRE(behind.has_value());
      ReplicatedCache cache(std::move(behind.value()), devices, tables(),
                            {.order = GroupOrder::kMembers, .overlap = overlap});
      Replicas nets(devices, cache);
      nets.train();
      REQUIRE(cache.flush(kDeadline).has_value());
      const Tables read = nets.read(2);
      check_close(read, reference);
      // Whatever the timing, the sums are the same.
      if (!before) before = read;
      for (std::size_t t = 0; t < read.size(); ++t) CHECK(same_bits(read[t], (*before)[t]));
    }
  }
}

TEST_CASE("devices share a worker that averages with other workers", "[replicated_cache]") {
  const auto host = cpu();
  JobMaker job = job_of_one();
  job.state.mutable_definition()->mutable_consistency()->mutable_elastic_averaging()->set_interval(
      2);
  const Policies policies = to_policies(job.state.definition()).value();
  const auto train = [&](std::size_t count, std::uint64_t seed) {
    ServedJob served(job);
    const auto client = served.client(0);
    test::LateBackend late(*host, {.seed = seed});
    const std::vector<Backend*> devices(count, &late);
    AveragingCache::Options options;
    options.rule = to_update_rule(job.solver()).value();
    options.exchange = policies.find<Averaging>()->exchange();
    options.schedule = policies.schedule();
    options.moving_rate = 0.5F;
    options.wait = kDeadline;
    auto behind = AveragingCache::open(*client, late, tables(), options);
    REQUIRE(behind.has_value());
    ReplicatedCache cache(std::move(behind.value()), devices, tables(), {});
    Replicas nets(devices, cache);
    nets.train();
    REQUIRE(cache.flush(kDeadline).has_value());
    Tables first = nets.read(0);
    const Tables last = nets.read(count - 1);
    for (std::size_t t = 0; t < first.size(); ++t) CHECK(same_bits(first[t], last[t]));
    return first;
  };
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    CAPTURE(seed);
    check_close(train(2, seed), train(2, 0));
  }
}

TEST_CASE("a group of one device after another takes the mean in their order",
          "[replicated_cache]") {
  const auto host = cpu();
  test::LateBackend late(*host, {});
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<DeviceGroup::Member> members;
  std::vector<DeviceBuffer> parts;
  std::vector<DeviceSpan<const float>> spans;
  const std::vector<std::vector<float>> given = {{3, 0, -6}, {6, 3, 0}, {0, 0, 3}};
  for (const std::vector<float>& one : given) {
    streams.push_back(late.make_stream());
    members.push_back({&late, streams.back().get()});
    parts.push_back(late.allocate_floats(3));
    late.copy_to_device(*streams.back(), one, parts.back().as<float>());
    spans.emplace_back(parts.back().as<float>());
  }
  const DeviceBuffer into = late.allocate_floats(3);
  const auto group = make_device_group(members, GroupOrder::kMembers);
  CHECK(group->description() == "copies between the devices");
  group->mean(spans, into.as<float>());
  // A member whose stream has passed may write its part again.
  for (std::size_t i = 0; i < 3; ++i) late.fill(*streams[i], parts[i].as<float>(), 100);
  for (std::size_t i = 3; i-- > 0;) streams[i]->finish();
  std::vector<float> mean(3);
  late.copy_to_host(*streams[0], into.as<float>(), mean);
  streams[0]->finish();
  CHECK(mean == std::vector<float>{3, 1, -1});
}

}  // namespace taut
