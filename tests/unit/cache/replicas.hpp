#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "proto/config/settle_policies.hpp"
#include "tests/unit/server/job_maker.hpp"
#include "worker/cache/local_cache.hpp"
#include "worker/engine/cpu/cpu_backend.hpp"

namespace taut::test {

/// By table.
using ReadTables = std::vector<std::vector<float>>;

inline constexpr std::int64_t kClocks = 5;

inline std::unique_ptr<Backend> cpu() {
  BackendOptions options;
  options.device = DeviceKind::kCpu;
  options.threads = 1;
  return make_cpu_backend(options);
}

inline std::vector<TableSpec> tables() {
  return {make_table(0, {3, 5}), make_table(1, {7}), make_table(2, {4}, TableKind::kFrozen),
          make_table(3, {6}, TableKind::kAveraged)};
}

/// What replicas' nets would do with a cache: all of them read a table before any continues to the
/// next, and what they make of it depends on the replica, the clock and what was read.
class Replicas {
 public:
  /// first  the number of the first replica; another worker's replicas have others
  Replicas(std::span<Backend* const> devices, ParameterCache& cache, std::size_t first = 0)
      : cache_(cache), first_(first) {
    for (Backend* const device : devices) {
      devices_.push_back(device);
      streams_.push_back(device->make_stream());
      cache.compute_on(streams_.size() - 1, *streams_.back());
    }
  }

  void train() {
    const std::vector<TableSpec> all = tables();
    for (std::int64_t clock = 0; clock < kClocks; ++clock) {
      // Assertions are for the main thread.
      if (cache_.begin_clock(Clock(clock)).value() != Clock(clock)) {
        throw std::logic_error("the cache begins another clock");
      }
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
  ReadTables read(std::size_t replica) {
    ReadTables read;
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
    const auto worker = static_cast<std::uint32_t>(first_ + replica);
    gradients_.push_back(gradient_of(worker, clock, gradient.size(), table.id.value()));
    devices_[replica]->copy_to_device(*streams_[replica], gradients_.back(), gradient);
    if (table.kind == TableKind::kTrained) {
      devices_[replica]->add(*streams_[replica], values, gradient);
    }
    cache_.publish(replica, table.id, Clock(clock));
  }

  ParameterCache& cache_;
  const std::size_t first_;
  std::vector<Backend*> devices_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::deque<std::vector<float>> gradients_;  // stays until the streams have passed
};

inline LocalCache::Options local_options(JobMaker& job, std::size_t replicas) {
  LocalCache::Options options;
  options.seed = job.state.definition().seed();
  options.replicas = replicas;
  options.rule = to_update_rule(job.solver()).value();
  return options;
}

/// The same sums on one device, which needs no copies of anything.
inline ReadTables expected(JobMaker& job, std::size_t replicas) {
  const auto backend = cpu();
  LocalCache cache(*backend, tables(), local_options(job, replicas));
  const std::vector<Backend*> devices(replicas, backend.get());
  Replicas nets(devices, cache);
  nets.train();
  return nets.read(0);
}

inline void check_close(const ReadTables& one, const ReadTables& other) {
  REQUIRE(one.size() == other.size());
  for (std::size_t t = 0; t < one.size(); ++t) {
    CAPTURE(t);
    for (std::size_t i = 0; i < one[t].size(); ++i) {
      REQUIRE(one[t][i] == Approx(other[t][i]).epsilon(1e-5).margin(1e-6));
    }
  }
}

}  // namespace taut::test
