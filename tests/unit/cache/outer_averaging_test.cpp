// Workers that train on their own and meet at an outer rule: caches and shards together.
#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/ssp/fragments.hpp"
#include "proto/config/settle_policies.hpp"
#include "tests/unit/client/served_job.hpp"
#include "tests/unit/server/outer_rules.hpp"
#include "worker/cache/averaging_cache.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

using namespace taut;
using test::JobMaker;
using test::kDeadline;
using test::ServedJob;

namespace {

using Values = std::vector<float>;

constexpr std::uint32_t kWorkers = 3;
constexpr std::int64_t kClocks = 14;
constexpr std::uint32_t kTables = 4;
constexpr std::size_t kCount = 5;
constexpr float kRate = 0.125F;  // of the workers' own training

std::vector<TableSpec> tables() {
  std::vector<TableSpec> all;
  for (std::uint32_t i = 0; i < kTables; ++i) all.push_back(test::make_table(i, {kCount}));
  return all;
}

JobMaker job_with(std::uint32_t interval, std::uint32_t fragments, float momentum = 0) {
  JobMaker maker(kWorkers);
  pb::Consistency& consistency = *maker.state.mutable_definition()->mutable_consistency();
  consistency.set_mode(pb::Consistency::BSP);
  consistency.mutable_periodic_averaging()->set_interval(interval);
  consistency.mutable_periodic_averaging()->set_fragments(fragments);
  consistency.mutable_periodic_averaging()->mutable_outer();
  maker.solver().set_base_lr(kRate);
  maker.solver().set_momentum(momentum);
  maker.solver().set_max_iter(kClocks);
  return maker;
}

pb::OuterOptimizer& outer_of(JobMaker& maker) {
  return *maker.state.mutable_definition()
              ->mutable_consistency()
              ->mutable_periodic_averaging()
              ->mutable_outer();
}

float gradient_at(std::uint32_t table, std::uint32_t worker, std::int64_t clock, std::size_t i,
                  float value) {
  return 0.5F * value + test::gradient_of(worker, clock, kCount, table + 1)[i];
}

/// One worker, and its own values at each clock.
struct Course {
  std::vector<std::vector<Values>> values;                 // by clock and table, before it
  std::vector<std::vector<std::vector<float>>> own_state;  // by clock
};

/// Trains from the clock that the options name on. Returns an error, or nothing.
std::string train_one(Client& client, Backend& backend, AveragingCache::Options options,
                      std::uint32_t worker, const std::vector<std::vector<float>>* own,
                      Course& course) {
  const auto stream = backend.make_stream();
  options.wait = kDeadline;
  auto opened = AveragingCache::open(client, backend, tables(), options);
  if (!opened) return opened.error().message;
  AveragingCache& cache = *opened.value();
  cache.compute_on(0, *stream);
  if (own != nullptr && !cache.restore(*own)) return "its own state does not fit";
  for (Clock clock = options.start;; clock = clock.next()) {
    course.own_state.push_back(cache.own_state(clock));
    std::vector<Values>& now = course.values.emplace_back(kTables, Values(kCount));
    for (std::uint32_t i = 0; i < kTables; ++i) {
      const auto values = cache.acquire(0, TableId(i), clock);
      if (!values) return values.error().message;
      backend.copy_to_host(*stream, values.value(), now[i]);
    }
    stream->finish();
    if (clock == Clock(kClocks)) return "";
    for (std::uint32_t i = 0; i < kTables; ++i) {
      Values gradient(kCount);
      for (std::size_t k = 0; k < kCount; ++k) {
        gradient[k] = gradient_at(i, worker, clock.value(), k, now[i][k]);
      }
      backend.copy_to_device(*stream, gradient, cache.gradient(0, TableId(i)));
      stream->finish();
      cache.publish(0, TableId(i), clock);
    }
    cache.finish_clock(0, clock);
  }
}

/// All workers, from the first clock on.
std::vector<Course> train(const JobMaker& job) {
  ServedJob served(job);
  AveragingCache::Options options;
  options.rule = to_update_rule(served.job.solver()).value();
  options.schedule = to_policies(served.job.state.definition()).value().schedule();
  BackendOptions of_backend;
  of_backend.device = DeviceKind::kCpu;
  of_backend.threads = 1;
  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    backends.push_back(make_cpu_backend(of_backend));
    clients.push_back(served.client(i));
  }
  std::vector<Course> courses(kWorkers);
  std::vector<std::future<std::string>> running;
  for (std::uint32_t i = 0; i < kWorkers; ++i) {
    running.push_back(std::async(std::launch::async, [&, i] {
      return train_one(*clients[i], *backends[i], options, i, nullptr, courses[i]);
    }));
  }
  for (auto& one : running) REQUIRE(one.get() == "");
  return courses;
}

/// A reference implementation in plain loops.
class Reference {
 public:
  explicit Reference(JobMaker& maker)
      : averaging_(maker.state.definition().consistency().periodic_averaging()) {
    const pb::OuterOptimizer& outer = averaging_.outer();
    const auto all = tables();
    for (const TableSpec& table : all) {
      Values& values = shared_.emplace_back(kCount);
      math::fill(table.filler, 42, table.name, 0, values);
      rules_.emplace_back(
          kCount, test::OuterReference(outer.type(), outer.lr(), outer.momentum(),
                                       outer.momentum2(), outer.delta(), outer.rms_decay()));
    }
    own_.assign(kWorkers, shared_);
    fragment_of_ = fragments_of(all, averaging_.fragments());
  }
  void clock(std::int64_t clock) {
    for (std::uint32_t table = 0; table < kTables; ++table) {
      for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
        Values& own = own_[worker][table];
        for (std::size_t i = 0; i < kCount; ++i) {
          own[i] = own[i] - kRate * gradient_at(table, worker, clock, i, own[i]);
        }
      }
      if (meets(table, clock)) meet(table);
    }
  }
  [[nodiscard]] const std::vector<Values>& own(std::uint32_t worker) const { return own_[worker]; }

 private:
  [[nodiscard]] bool meets(std::uint32_t table, std::int64_t clock) const {
    if (clock + 1 == kClocks) return true;
    const std::int64_t offset =
        fragment_of_[table] * averaging_.interval() / averaging_.fragments();
    return (clock + 1) % averaging_.interval() == offset;
  }
  void meet(std::uint32_t table) {
    for (std::size_t i = 0; i < kCount; ++i) {
      float sum = shared_[table][i] - own_[0][table][i];
      for (std::uint32_t worker = 1; worker < kWorkers; ++worker) {
        sum += shared_[table][i] - own_[worker][table][i];
      }
      const float mean = sum * static_cast<float>(1.0 / kWorkers);
      shared_[table][i] = rules_[table][i].step(shared_[table][i], mean);
      for (auto& own : own_) own[table][i] = shared_[table][i];
    }
  }

  const pb::PeriodicAveraging averaging_;
  std::vector<Values> shared_;
  std::vector<std::vector<test::OuterReference>> rules_;
  std::vector<std::vector<Values>> own_;
  std::vector<std::uint32_t> fragment_of_;
};

void check_against_reference(JobMaker job) {
  const std::vector<Course> courses = train(job);
  Reference reference(job);
  for (std::int64_t clock = 0; clock <= kClocks; ++clock) {
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      for (std::uint32_t table = 0; table < kTables; ++table) {
        CAPTURE(clock, worker, table);
        CHECK(test::same_bits(courses[worker].values[static_cast<std::size_t>(clock)][table],
                              reference.own(worker)[table]));
      }
    }
    reference.clock(clock);
  }
}

}  // namespace

TEST_CASE("workers meet at every outer rule to the bits of plain loops", "[averaging][outer]") {
  for (const std::string type :
       {"SGD", "Nesterov", "Adam", "AdamW", "AdaGrad", "RMSProp", "AdaDelta", "Lion"}) {
    CAPTURE(type);
    JobMaker job = job_with(4, 1);
    outer_of(job).set_type(type);
    if (type == "Adam" || type == "AdamW" || type == "Lion") outer_of(job).set_lr(0.01F);
    check_against_reference(job);
  }
}

TEST_CASE("fragments meet in turn to the bits of plain loops", "[averaging][outer]") {
  for (const std::uint32_t fragments : {2U, 3U, 4U}) {
    CAPTURE(fragments);
    check_against_reference(job_with(5, fragments));
  }
}

TEST_CASE("a worker continues from its own state of a checkpoint, between two meetings too",
          "[averaging][outer]") {
  // A single worker's server state is its courses' own: only what the worker keeps is restored.
  JobMaker job = job_with(6, 3, 0.9F);
  const std::vector<Course> whole = train(job);
  const std::vector<std::vector<float>>& own = whole[1].own_state[8];
  // A velocity for each table, then values and shared ones of those that have not met just before.
  REQUIRE(own.size() == kTables * 3);
  std::size_t between = 0;
  for (std::size_t table = 0; table < kTables; ++table) {
    CHECK(own[3 * table].size() == kCount);
    CHECK(own[3 * table + 1].size() == own[3 * table + 2].size());
    if (own[3 * table + 1].empty()) continue;
    ++between;
    CHECK(test::same_bits(own[3 * table + 1], whole[1].values[8][table]));
  }
  // At clock 7 the second of three fragments has met.
  const auto fragments = fragments_of(tables(), 3);
  CHECK(between == kTables - static_cast<std::size_t>(std::ranges::count(fragments, 1U)));
  ServedJob served(job);
  BackendOptions of_backend;
  of_backend.device = DeviceKind::kCpu;
  of_backend.threads = 1;
  const auto backend = make_cpu_backend(of_backend);
  const auto client = served.client(0);
  AveragingCache::Options options;
  options.rule = to_update_rule(served.job.solver()).value();
  options.schedule = to_policies(served.job.state.definition()).value().schedule();
  options.wait = kDeadline;
  const auto cache = AveragingCache::open(*client, *backend, tables(), options).value();
  std::vector<std::vector<float>> bad = own;
  bad.pop_back();
  CHECK_FALSE(cache->restore(bad));
  bad = own;
  bad[0].pop_back();
  CHECK_FALSE(cache->restore(bad));
  bad = own;
  bad[1].assign(kCount, 0);
  bad[2].clear();
  CHECK_FALSE(cache->restore(bad));
  CHECK(cache->restore(own));
}
