#pragma once

#include <cmath>

#include "common/ssp/staleness_policy.hpp"

namespace taut {

/// An update has the weight (1 + staleness)^-exponent.
///
/// In both papers a fresh update has staleness 0, and otherwise its staleness is how often the
/// server's model was updated since the worker fetched it; here it is LateUpdate::staleness.
/// Source    Xie, Koyejo and Gupta, "Asynchronous Federated Optimization", 2019, section 5.2
///           (polynomial); with 0.5 the scale of Nguyen et al., "Federated Learning with Buffered
///           Asynchronous Aggregation", AISTATS 2022, section 5
class StalenessExponent final : public StalenessPolicy {
 public:
  static constexpr PolicyInfo kInfo{
      .name = "staleness_exponent", .mode = PolicyMode::kArrivals, .is_scale = true};

  explicit StalenessExponent(float exponent) : exponent_(exponent) {}

  [[nodiscard]] Keeps keeps() const override { return {.reads = true}; }
  void weigh(LateUpdate& update) const override {
    update.gradient.scale *= static_cast<float>(std::pow(1 + update.staleness, -exponent_));
  }

 private:
  float exponent_;
};

}  // namespace taut
