// Tables by rows in front of shards.
#include "worker/cache/served_rows.hpp"

#include <future>
#include <string>
#include <vector>

#include "common/math/filler.hpp"
#include "tests/unit/cache/late_backend.hpp"
#include "tests/unit/client/served_job.hpp"
#include "worker/cache/initial_values.hpp"
#include "worker/cache/served_cache.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut {
namespace {

using test::JobMaker;
using test::kDeadline;
using test::ServedJob;
using Rows = std::vector<std::uint64_t>;
using Floats = std::vector<float>;

constexpr std::size_t kWidth = 3;
constexpr std::size_t kBatchRows = 4;
constexpr std::uint64_t kSeed = 42;  // as JobMaker's

std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

/// One of 2^32 rows in 5 buckets, between two that are not kept by rows.
std::vector<TableSpec> tables() {
  std::vector<TableSpec> all = {
      test::make_table(0, {5}),
      test::make_table(1, {4294967296, static_cast<std::int64_t>(kWidth)}),
      test::make_table(2, {2, 2})};
  all[1].rows = RowTable{.buckets = 5};
  return all;
}

constexpr TableId kTable{1};

Floats initial(const Rows& rows) {
  Floats values(rows.size() * kWidth);
  REQUIRE(read_initial_rows(tables()[1], kSeed, rows, values).has_value());
  return values;
}

/// A worker's cache and what its compute does with it.
class Worker {
 public:
  Worker(ServedJob& served, std::uint32_t number, bool is_late) : client_(served.client(number)) {
    backends_.push_back(cpu());
    if (is_late) {
      backends_.push_back(
          std::make_unique<test::LateBackend>(*backends_[0], test::LateBackend::Options{}));
    }
    stream_ = backend().make_stream();
  }
  ~Worker() {
    cache_.reset();
    stream_.reset();
    while (!backends_.empty()) backends_.pop_back();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::string open() {
    ServedCache::Options options;
    options.wait = kDeadline;
    options.batch_rows[kTable] = kBatchRows;
    auto cache = ServedCache::open(*client_, backend(), tables(), options);
    if (!cache) return cache.error().message;
    cache_ = std::move(cache.value());
    cache_->compute_on(0, *stream_);
    return "";
  }

  /// A clock whose gradient of every named row's values is `gradient`, and 1 of the other tables.
  /// Returns the rows' values, and what is behind them.
  Floats clock(std::int64_t number, const Rows& rows, float gradient) {
    REQUIRE(cache_->name_rows(0, kTable, Clock(number), rows).has_value());
    Floats values(kBatchRows * kWidth);
    for (const TableSpec& table : tables()) {
      const auto at = cache_->acquire(0, table.id, Clock(number));
      REQUIRE(at.has_value());
      if (table.id != kTable) continue;
      REQUIRE(at.value().size() == values.size());
      backend().copy_to_host(*stream_, at.value(), values);
      stream_->finish();
    }
    for (const TableSpec& table : tables()) {
      const DeviceSpan<float> into = cache_->gradient(0, table.id);
      backend().fill(*stream_, into, table.id == kTable ? gradient : 1);
      cache_->publish(0, table.id, Clock(number));
    }
    cache_->finish_clock(0, Clock(number));
    return values;
  }

  Floats snapshot(const Rows& rows) {
    Floats values(rows.size() * kWidth);
    const auto version = cache_->snapshot_rows(kTable, rows, values);
    REQUIRE(version.has_value());
    return values;
  }
  void flush() { REQUIRE(cache_->flush(kDeadline).has_value()); }

 private:
  Backend& backend() { return *backends_.back(); }

  std::unique_ptr<Client> client_;
  std::vector<std::unique_ptr<Backend>> backends_;  // each uses the one before
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<ServedCache> cache_;
};

/// Values of rows with zeros behind them.
Floats padded(Floats values) {
  values.resize(kBatchRows * kWidth, 0.0F);
  return values;
}

Floats minus(Floats values, float step) {
  for (float& value : values) value -= step;
  return values;
}

}  // namespace

TEST_CASE("a batch's rows are read, and their gradients pushed, on any device", "[rows]") {
  const bool is_late = GENERATE(false, true);
  CAPTURE(is_late);
  ServedJob served(JobMaker(1, Slack(0), 2));
  Worker worker(served, 0, is_late);
  REQUIRE(worker.open().empty());
  const Rows first = {0, 7, 4294967295};
  const Rows second = {7, 1000000};
  // The job's rate is 0.5.
  CHECK(worker.clock(0, first, 2) == padded(initial(first)));
  Floats expected = minus(initial({7}), 1);
  const Floats untouched = initial({1000000});
  expected.insert(expected.end(), untouched.begin(), untouched.end());
  CHECK(worker.clock(1, second, 4) == padded(expected));
  // A clock without rows is pushed too, or the next one would wait for ever.
  CHECK(worker.clock(2, {}, 9) == padded({}));
  CHECK(worker.clock(3, {0, 7}, 0) == padded([] {
          Floats both = minus(initial({0}), 1);
          const Floats seven = minus(minus(initial({7}), 1), 2);
          both.insert(both.end(), seven.begin(), seven.end());
          return both;
        }()));
  worker.flush();
  CHECK(worker.snapshot({1000000, 3}) == [] {
    Floats both = minus(initial({1000000}), 2);
    const Floats three = initial({3});
    both.insert(both.end(), three.begin(), three.end());
    return both;
  }());
}

TEST_CASE("rows that two workers name are moved by both, and those of one by its half", "[rows]") {
  ServedJob served(JobMaker(2, Slack(0), 2));
  std::vector<std::future<Floats>> running;
  for (std::uint32_t number = 0; number < 2; ++number) {
    running.push_back(std::async(std::launch::async, [&served, number] {
      Worker worker(served, number, false);
      REQUIRE(worker.open().empty());
      const Rows own = {5, 10 + number};
      static_cast<void>(worker.clock(0, own, number == 0 ? 2 : 4));
      Floats values = worker.clock(1, {5, 10, 11}, 0);
      worker.flush();
      return values;
    }));
  }
  const Floats one = running[0].get();
  const Floats other = running[1].get();
  CHECK(one == other);
  Floats expected = minus(initial({5}), 1.5F);
  const Floats ten = minus(initial({10}), 0.5F);
  const Floats eleven = minus(initial({11}), 1);
  expected.insert(expected.end(), ten.begin(), ten.end());
  expected.insert(expected.end(), eleven.begin(), eleven.end());
  CHECK(one == padded(expected));
}

}  // namespace taut
