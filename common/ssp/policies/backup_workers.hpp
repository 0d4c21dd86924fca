#pragma once

#include <memory>

#include "common/ssp/staleness_policy.hpp"

namespace taut {

/// BSP that waits for all but a few: the updates of the slowest are dropped.
/// Source    Chen et al., "Revisiting Distributed Synchronous SGD", 2016, algorithms 3 and 4
class BackupWorkers final : public StalenessPolicy {
 public:
  static constexpr PolicyInfo kInfo{.name = "backup_workers", .mode = PolicyMode::kBsp};

  explicit BackupWorkers(std::uint32_t count) : count_(count) {}
  [[nodiscard]] std::uint32_t backup_workers() const override { return count_; }
  [[nodiscard]] std::unique_ptr<const AggregationPolicy> aggregation() const override {
    return std::make_unique<BackupAggregation>(count_);
  }

 private:
  std::uint32_t count_;
};

}  // namespace taut
