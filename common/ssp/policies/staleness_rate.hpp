#pragma once

#include "common/math/delay_compensation.hpp"
#include "common/ssp/staleness_policy.hpp"

namespace taut {

/// An update has the weight 1 / staleness.
/// Source    see math::staleness_scale()
class StalenessRate final : public StalenessPolicy {
 public:
  static constexpr PolicyInfo kInfo{
      .name = "staleness_learning_rate", .mode = PolicyMode::kArrivals, .is_scale = true};

  [[nodiscard]] Keeps keeps() const override { return {.reads = true}; }
  void weigh(LateUpdate& update) const override {
    update.gradient.scale *= math::staleness_scale(update.staleness);
  }
};

}  // namespace taut
