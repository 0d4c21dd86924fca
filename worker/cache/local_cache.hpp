#pragma once

#include <cstdint>
#include <vector>

#include "common/math/update_kernels.hpp"
#include "common/math/update_rule.hpp"
#include "worker/backend/backend.hpp"
#include "worker/cache/parameter_cache.hpp"

namespace taut {

/// Parameters of one process without a server: every clock ends with one application of all
/// replicas' gradients, summed in replica order, as BSP does it at a shard. The baseline for speed
/// and for bits.
class LocalCache final : public ParameterCache {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::size_t replicas = 1;
    math::UpdateRule rule;
    bool sum = false;  // add gradients up instead of dividing by the replicas
  };

  /// REQUIRES: a backend that shares the host's memory.
  LocalCache(Backend& backend, std::vector<TableSpec> tables, Options options);

  /// Gives tables with an origin what their files hold. Errors: as TensorFile.
  [[nodiscard]] Result<void> read_origins();

  Result<DeviceSpan<const float>> acquire(TableId table, Clock clock) override;
  DeviceSpan<float> gradient(std::size_t replica, TableId table) override;
  void publish(std::size_t replica, TableId table, Clock clock) override;
  void finish_clock(std::size_t replica, Clock clock) override;
  Result<Clock> snapshot(TableId table, std::span<float> into) override;
  Result<void> flush(Duration /*wait*/) override { return ok(); }
  const StalenessHistogram& staleness() const override { return staleness_; }

 private:
  struct Table {
    TableSpec spec;
    DeviceBuffer values;
    std::vector<DeviceBuffer> gradients;  // by replica
    std::vector<std::vector<float>> state;
  };
  void apply(Table& table, Clock clock, const std::vector<float>& norms);
  void descend(Table& table, Clock clock, const std::vector<math::GradientView>& gradients);
  [[nodiscard]] std::vector<float> gradient_norms() const;

  const Options options_;
  std::vector<Table> tables_;
  Clock clock_;
  StalenessHistogram staleness_;
};

}  // namespace taut
