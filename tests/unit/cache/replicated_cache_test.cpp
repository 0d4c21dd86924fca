#include "worker/cache/replicated_cache.hpp"

#include <array>
#include <optional>
#include <vector>

#include "common/ssp/policies/averaging.hpp"
#include "proto/config/settle_policies.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/cache/replicas.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/cache/averaging_cache.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/cache/served_cache.hpp"

namespace taut {
namespace {

using test::check_close;
using test::cpu;
using test::expected;
using test::JobMaker;
using test::kDeadline;
using test::local_options;
using test::Replicas;
using test::same_bits;
using test::ServedJob;
using test::tables;

using Tables = test::ReadTables;

JobMaker job_of_one() {
  JobMaker job(1, Slack(0), 2);
  job.solver().set_momentum(0.9F);
  job.solver().set_base_lr(0.05F);
  return job;
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
