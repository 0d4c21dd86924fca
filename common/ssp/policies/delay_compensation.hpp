#pragma once

#include "common/math/delay_compensation.hpp"
#include "common/ssp/staleness_policy.hpp"

namespace taut {

/// A late gradient is corrected for how the parameters changed since its worker read them.
/// Source    see math::compensate()
class DelayCompensation final : public StalenessPolicy {
 public:
  static constexpr PolicyInfo kInfo{.name = "delay_compensation", .mode = PolicyMode::kArrivals};

  explicit DelayCompensation(const math::DelayCompensation& settings) : settings_(settings) {}
  [[nodiscard]] const math::DelayCompensation& settings() const { return settings_; }

  /// The adaptive form keeps the mean square of gradients.
  [[nodiscard]] Keeps keeps() const override {
    return {.reads = true, .values = true, .state = settings_.is_adaptive()};
  }
  void weigh(LateUpdate& update) const override {
    math::compensate_delay(settings_, update.gradient, update.values, update.read, update.state,
                           update.corrected);
    update.gradient = {reinterpret_cast<const std::byte*>(update.corrected.data()), 1.0F};
  }

 private:
  math::DelayCompensation settings_;
};

}  // namespace taut
