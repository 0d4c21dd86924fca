#include <cmath>
#include <cstdint>
#include <deque>
#include <future>
#include <limits>
#include <string>

#include "common/math/update_rules.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/client/served_job.hpp"
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

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

std::vector<TableSpec> small_tables() {
  std::vector<TableSpec> tables = {test::make_table(0, {3, 5}), test::make_table(1, {7}),
                                   test::make_table(2, {4}, TableKind::kFrozen),
                                   test::make_table(3, {6}, TableKind::kAveraged)};
  tables[1].lr_mult = 2;
  tables[1].decay_mult = 0;
  return tables;
}

/// What a net would do with the cache at a clock: read every table, make gradients of what was
/// read, publish them, the last table first. What is computed is queued, not awaited.
class Computer {
 public:
  explicit Computer(Backend& backend) : backend_(backend), stream_(backend.make_stream()) {}
  Stream& stream() { return *stream_; }

  Result<void> one_clock(ParameterCache& cache, std::span<const TableSpec> tables,
                         std::size_t replica, std::uint32_t worker, std::int64_t clock) {
    std::vector<DeviceSpan<const float>> values;
    for (const TableSpec& table : tables) {
      TAUT_TRY(const auto at, cache.acquire(replica, table.id, Clock(clock)));
      if (at.size() != table.count()) return invalid("a table of another size");
      values.push_back(at);
    }
    // NOLINTNEXTLINE(modernize-loop-convert): clang 14 does not compile views of this libstdc++
    for (auto table = tables.rbegin(); table != tables.rend(); ++table) {
      if (table->kind == TableKind::kFrozen) continue;
      const DeviceSpan<float> gradient = cache.gradient(replica, table->id);
      gradients_.push_back(test::gradient_of(worker, clock, gradient.size(), table->id.value()));
      backend_.copy_to_device(*stream_, gradients_.back(), gradient);
      if (table->kind == TableKind::kTrained) {
        backend_.add(*stream_, values[table->id.value()], gradient);
      }
      cache.publish(replica, table->id, Clock(clock));
    }
    cache.finish_clock(replica, Clock(clock));
    return ok();
  }

 private:
  Backend& backend_;
  std::unique_ptr<Stream> stream_;
  std::deque<std::vector<float>> gradients_;  // stays until the stream has passed
};

Tables values_of(ParameterCache& cache, std::span<const TableSpec> tables, Clock clock) {
  Tables all;
  for (const TableSpec& table : tables) {
    all.emplace_back(table.count());
    const auto version = cache.snapshot(table.id, all.back());
    REQUIRE(version.has_value());
    if (table.kind != TableKind::kFrozen) CHECK(version.value() == clock);
  }
  return all;
}

Tables train_on(Backend& backend, JobMaker& job, std::span<const TableSpec> tables,
                std::uint32_t members, std::int64_t clocks) {
  LocalCache::Options options;
  options.seed = job.state.definition().seed();
  options.replicas = members;
  options.rule = to_update_rule(job.solver()).value();
  options.sum = job.state.definition().reduction() == pb::Job::SUM;
  LocalCache cache(backend, {tables.begin(), tables.end()}, options);
  Computer computer(backend);
  cache.compute_on(0, computer.stream());
  for (std::int64_t clock = 0; clock < clocks; ++clock) {
    for (std::uint32_t replica = 0; replica < members; ++replica) {
      REQUIRE(computer.one_clock(cache, tables, replica, replica, clock).has_value());
    }
  }
  return values_of(cache, tables, Clock(clocks));
}

Tables train_locally(JobMaker& job, std::span<const TableSpec> tables, std::uint32_t members,
                     std::int64_t clocks) {
  const auto backend = cpu();
  return train_on(*backend, job, tables, members, clocks);
}

enum class Device : std::uint8_t { kHostMemory, kLate };

/// late  of the device: 0, as late as can be; else a seed
Tables train_served(const JobMaker& job, std::span<const TableSpec> tables, std::uint32_t members,
                    std::int64_t clocks, Device device = Device::kHostMemory,
                    std::uint64_t late = 0, bool overlap = true) {
  ServedJob served(job);
  std::vector<std::unique_ptr<Backend>> hosts;
  std::vector<std::unique_ptr<Backend>> devices;
  std::vector<std::unique_ptr<Computer>> computers;
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::unique_ptr<ParameterCache>> caches(members);
  std::vector<std::future<std::string>> running;
  for (std::uint32_t worker = 0; worker < members; ++worker) {
    clients.push_back(served.client(worker));
  }
  const math::UpdateNorm norm = to_update_rule(served.job.solver()).value().update_norm();
  for (std::uint32_t worker = 0; worker < members; ++worker) {
    hosts.push_back(cpu());
    if (device == Device::kLate) {
      const std::uint64_t seed = late == 0 ? 0 : 8 * late + worker;
      devices.push_back(
          std::make_unique<test::LateBackend>(*hosts.back(), test::LateBackend::Options{seed}));
    }
    Backend* const backend = device == Device::kLate ? devices.back().get() : hosts.back().get();
    computers.push_back(std::make_unique<Computer>(*backend));
    Computer& computer = *computers.back();
    running.push_back(std::async(std::launch::async, [&, backend, worker]() -> std::string {
      ServedCache::Options options;
      options.norm = norm;
      options.wait = kDeadline;
      options.overlap = overlap;
      auto cache =
          ServedCache::open(*clients[worker], *backend, {tables.begin(), tables.end()}, options);
      if (!cache) return cache.error().message;
      caches[worker] = std::move(cache.value());
      caches[worker]->compute_on(0, computer.stream());
      for (std::int64_t clock = 0; clock < clocks; ++clock) {
        auto done = computer.one_clock(*caches[worker], tables, 0, worker, clock);
        if (!done) return done.error().message;
      }
      auto flushed = caches[worker]->flush(kDeadline);
      return flushed ? "" : flushed.error().message;
    }));
  }
  for (auto& one : running) REQUIRE(one.get() == "");
  return values_of(*caches[0], tables, Clock(clocks));
}

void check_equal(JobMaker job, const std::vector<TableSpec>& tables, std::uint32_t members,
                 std::int64_t clocks) {
  const Tables local = train_locally(job, tables, members, clocks);
  const Tables served = train_served(job, tables, members, clocks);
  REQUIRE(local.size() == served.size());
  for (std::size_t t = 0; t < local.size(); ++t) {
    CAPTURE(t);
    CHECK(same_bits(local[t], served[t]));
  }
}

void set_rule(pb::SolverParameter& solver, const std::string& type, float momentum) {
  solver.set_type(type);
  solver.set_momentum(momentum);
  solver.set_base_lr(0.05F);
  solver.set_lr_policy("inv");
  solver.set_gamma(0.1F);
  solver.set_power(0.75F);
}

}  // namespace

TEST_CASE("a rule whose state begins at a later clock counts its applications from there",
          "[cache]") {
  // A worker that joins others which average starts from moments of zero: Adam's first step is as
  // long as the rate.
  JobMaker maker(1);
  maker.solver().set_type("Adam");
  maker.solver().set_base_lr(0.125F);
  maker.solver().set_momentum(0.9F);
  const auto backend = cpu();
  const std::vector<TableSpec> tables = {test::make_table(0, {4})};
  LocalCache cache(*backend, tables, {.rule = to_update_rule(maker.solver()).value()});
  const auto stream = backend->make_stream();
  cache.compute_on(0, *stream);
  const Clock joined(1000);
  cache.begin_state(joined);
  std::vector<float> before(4);
  std::vector<float> after(4);
  cache.read(TableId(0), before);
  cache.write_gradient(0, TableId(0), std::vector<float>(4, 1.0F));
  cache.finish_clock(0, joined);
  cache.read(TableId(0), after);
  for (std::size_t i = 0; i < after.size(); ++i) {
    CHECK(before[i] - after[i] == Approx(0.125F).epsilon(1e-3));
  }
}

TEST_CASE("BSP over a server ends in the bits of one process that does the same sums", "[cache]") {
  std::vector<std::pair<std::string, float>> rules = {{"SGD", 0.0F}};
  for (const math::RuleInfo& known : math::rule_types()) {
    rules.emplace_back(known.name, known.reads.momentum ? 0.9F : 0.0F);
  }
  for (const auto& [type, momentum] : rules) {
    for (const char* variant : {"plain", "clipped", "decayed L1", "everything, summed"}) {
      CAPTURE(type, momentum, variant);
      const std::string name = variant;
      JobMaker job(3, Slack(0), 2);
      set_rule(job.solver(), type, momentum);
      // LARS clips nothing: it scales by its own norm.
      if (type != "LARS" && (name == "clipped" || name.starts_with("everything"))) {
        job.solver().set_clip_gradients(0.7F);
      }
      if (name.starts_with("decayed") || name.starts_with("everything")) {
        if (type == "FTRL") {
          job.solver().set_ftrl_l1(0.03F);  // its own terms
        } else {
          job.solver().set_weight_decay(0.03F);
        }
      }
      if (name.ends_with("L1")) job.solver().set_regularization_type("L1");
      if (name.ends_with("summed")) {
        job.state.mutable_definition()->set_reduction(pb::Job::SUM);
      }
      check_equal(job, small_tables(), 3, 6);
    }
  }
}

TEST_CASE("a device with its own memory ends in the same bits, however late it works", "[cache]") {
  for (const char* variant : {"plain", "clipped", "LARS", "no overlap"}) {
    const std::string name = variant;
    JobMaker job(2, Slack(0), 2);
    set_rule(job.solver(), name == "LARS" ? "LARS" : "SGD", 0.9F);
    if (name == "clipped") job.solver().set_clip_gradients(0.7F);
    const Tables local = train_locally(job, small_tables(), 2, 5);
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(variant, seed);
      const Tables served =
          train_served(job, small_tables(), 2, 5, Device::kLate, seed, name != "no overlap");
      for (std::size_t t = 0; t < local.size(); ++t) {
        CAPTURE(t);
        CHECK(same_bits(local[t], served[t]));
      }
    }
  }
}

TEST_CASE("updates on a device with its own memory are those of the host", "[cache]") {
  for (const char* type : {"SGD", "Adam", "LARS", "LAMB"}) {
    CAPTURE(type);
    JobMaker job(2);
    set_rule(job.solver(), type, 0.9F);
    if (std::string(type) == "SGD") job.solver().set_clip_gradients(0.7F);
    const auto host = cpu();
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      CAPTURE(seed);
      test::LateBackend late(*host, {.seed = seed});
      const Tables served = train_on(late, job, small_tables(), 2, 5);
      const Tables local = train_locally(job, small_tables(), 2, 5);
      for (std::size_t t = 0; t < local.size(); ++t) CHECK(same_bits(local[t], served[t]));
    }
  }
}

TEST_CASE("a table of several slices on several shards ends in the same bits too", "[cache]") {
  const auto elements = static_cast<std::int64_t>(2 * SliceLayout::kSliceElements + 77);
  for (const char* type : {"Adam", "LARS", "LAMB"}) {
    CAPTURE(type);
    JobMaker job(2, Slack(0), 2);
    set_rule(job.solver(), type, 0.9F);
    if (type != std::string("LARS")) job.solver().set_clip_gradients(100);
    job.solver().set_weight_decay(0.01F);
    check_equal(job, {test::make_table(0, {elements}), test::make_table(1, {9})}, 2, 3);
  }
}

TEST_CASE("one worker with a server and one replica without end in the same bits", "[cache]") {
  JobMaker job(1);
  set_rule(job.solver(), "Nesterov", 0.9F);
  check_equal(job, small_tables(), 1, 10);
}

TEST_CASE("running statistics end as the members' mean, also with clipping", "[cache]") {
  JobMaker job(2);
  set_rule(job.solver(), "SGD", 0.0F);
  job.solver().set_clip_gradients(1e-3F);
  const std::vector<TableSpec> tables = {test::make_table(0, {50}),
                                         test::make_table(1, {6}, TableKind::kAveraged)};
  const Tables local = train_locally(job, tables, 2, 1);
  const Tables served = train_served(job, tables, 2, 1);
  const auto a = test::gradient_of(0, 0, 6, 1);
  const auto b = test::gradient_of(1, 0, 6, 1);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(local[1][i] == Approx((a[i] + b[i]) / 2).margin(1e-6));
    CHECK(served[1][i] == Approx((a[i] + b[i]) / 2).margin(1e-6));
  }
}

TEST_CASE("running statistics do not count in the norm that clips the gradients", "[cache]") {
  JobMaker job(1);
  set_rule(job.solver(), "SGD", 0.0F);
  const std::vector<TableSpec> trained = {test::make_table(0, {5})};
  std::vector<TableSpec> both = trained;
  both.push_back(test::make_table(1, {500}, TableKind::kAveraged));
  job.solver().set_clip_gradients(5);
  CHECK(same_bits(train_locally(job, trained, 1, 1)[0], train_locally(job, both, 1, 1)[0]));
  CHECK(same_bits(train_served(job, trained, 1, 1)[0], train_served(job, both, 1, 1)[0]));
}

TEST_CASE("a run that diverges while clipping continues, with and without a server", "[cache]") {
  JobMaker job(1);
  job.solver().set_clip_gradients(1);
  ServedJob served(job);
  const auto backend = cpu();
  const auto client = served.client(0);
  ServedCache::Options options;
  options.norm = math::UpdateNorm::kGradient;
  options.wait = Duration(5'000'000);
  const std::vector<TableSpec> tables = {test::make_table(0, {3})};
  const auto cache = ServedCache::open(*client, *backend, tables, options);
  REQUIRE(cache.has_value());
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::int64_t clock = std::isnan(bad) ? 0 : 1;
    REQUIRE(cache.value()->acquire(0, TableId(0), Clock(clock)).has_value());
    std::ranges::fill(host_view(cache.value()->gradient(0, TableId(0))), bad);
    cache.value()->publish(0, TableId(0), Clock(clock));
    cache.value()->finish_clock(0, Clock(clock));
    CHECK(cache.value()->acquire(0, TableId(0), Clock(clock + 1)).has_value());
  }
}

TEST_CASE("values that the compute reads stay while the next ones arrive", "[cache]") {
  ServedJob served(JobMaker(1));
  const auto backend = cpu();
  const auto client = served.client(0);
  ServedCache::Options options;
  options.wait = kDeadline;
  const std::vector<TableSpec> tables = {test::make_table(0, {8})};
  const auto cache = ServedCache::open(*client, *backend, tables, options);
  REQUIRE(cache.has_value());
  const auto front = cache.value()->acquire(0, TableId(0), Clock(0));
  REQUIRE(front.has_value());
  const auto view = host_view(front.value());
  const std::vector<float> before(view.begin(), view.end());
  // Asked again within the clock, it is the same memory.
  CHECK(cache.value()->acquire(0, TableId(0), Clock(0)).value().address() ==
        front.value().address());
  std::ranges::fill(host_view(cache.value()->gradient(0, TableId(0))), 1.0F);
  cache.value()->publish(0, TableId(0), Clock(0));
  REQUIRE(client->wait(TableId(0), Clock(1), kDeadline).has_value());
  CHECK(same_bits(view, before));
  const auto next = cache.value()->acquire(0, TableId(0), Clock(1));
  REQUIRE(next.has_value());
  CHECK_FALSE(same_bits(host_view(next.value()), before));
}

TEST_CASE("a joining worker's cache starts at its clock", "[cache]") {
  JobMaker job(1, Slack(1));
  ServedJob served(job);
  const auto backend = cpu();
  Computer computer(*backend);
  const auto first = served.client(0);
  ServedCache::Options options;
  options.wait = kDeadline;
  const std::vector<TableSpec> tables = small_tables();
  const auto old = ServedCache::open(*first, *backend, tables, options);
  REQUIRE(old.has_value());
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    REQUIRE(computer.one_clock(*old.value(), tables, 0, 0, clock).has_value());
  }
  REQUIRE(old.value()->flush(kDeadline).has_value());
  served.job.join(Clock(4));
  served.change();
  const auto second = served.client(1);
  options.start = Clock(4);
  const auto joined = ServedCache::open(*second, *backend, tables, options);
  REQUIRE(joined.has_value());
  REQUIRE(computer.one_clock(*joined.value(), tables, 0, 1, 4).has_value());
  CHECK(joined.value()->flush(kDeadline).has_value());
}

}  // namespace taut
