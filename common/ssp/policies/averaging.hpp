#pragma once

#include <cstdint>

#include "common/ssp/staleness_policy.hpp"

namespace taut {

/// How workers that train their own parameters exchange with the shared ones.
enum class Exchange : std::uint8_t {
  kPeriodic,  // all move to the mean of all
  kElastic,   // each and the shared ones move towards each other
};

/// Workers train their own parameters, and push only at the end of each interval. What a
/// worker does there is its AveragingCache; a shard adds up what is pushed, or takes its mean.
/// Source    see math::periodic_update() and math::elastic_update()
class Averaging final : public StalenessPolicy {
 public:
  static constexpr PolicyInfo kPeriodic{
      .name = "periodic_averaging", .mode = PolicyMode::kBsp, .is_alone = true};
  static constexpr PolicyInfo kElastic{.name = "elastic_averaging", .is_alone = true};

  /// moving_rate  kElastic; 0: 0.9 over the number of workers
  Averaging(Exchange exchange, PushSchedule schedule, float moving_rate = 0)
      : exchange_(exchange), schedule_(schedule), moving_rate_(moving_rate) {}

  [[nodiscard]] Exchange exchange() const { return exchange_; }
  [[nodiscard]] float moving_rate() const { return moving_rate_; }
  [[nodiscard]] PushSchedule schedule() const override { return schedule_; }

 private:
  Exchange exchange_;
  PushSchedule schedule_;
  float moving_rate_;
};

}  // namespace taut
