#pragma once

#include <cstdint>
#include <memory>

#include "common/ssp/staleness_policy.hpp"

namespace taut {

/// How workers that train their own parameters exchange with the shared ones.
enum class Exchange : std::uint8_t {
  kPeriodic,  // all continue from the shared ones
  kElastic,   // each and the shared ones move towards each other
};

/// Workers train their own parameters, and push only at the end of each interval. The
/// worker's side is AveragingCache; a shard adds up what is pushed, or passes its mean as the
/// gradient to an outer rule.
/// Source    see math::periodic_update() and math::elastic_update(); Douillard et al., "DiLoCo:
///           Distributed Low-Communication Training of Language Models", 2023, algorithm 1; Reddi
///           et al., "Adaptive Federated Optimization", ICLR 2021, algorithm 1
class Averaging final : public StalenessPolicy {
 public:
  static constexpr PolicyInfo kPeriodic{
      .name = "periodic_averaging", .mode = PolicyMode::kBsp, .is_alone = true};
  /// With an outer rule, under which a late update has a meaning.
  static constexpr PolicyInfo kOuter{
      .name = "periodic_averaging", .is_alone = true, .goes_with_scales = true};
  static constexpr PolicyInfo kElastic{.name = "elastic_averaging", .is_alone = true};

  struct Settings {
    Exchange exchange = Exchange::kPeriodic;
    PushSchedule schedule;
    float moving_rate = 0;     // kElastic; 0: 0.9 over the number of workers
    std::uint32_t buffer = 0;  // updates per application; 0: according to the mode
    bool is_seeded = false;    // updates of clock 0 are initial values
  };
  explicit Averaging(const Settings& settings) : settings_(settings) {}

  [[nodiscard]] Exchange exchange() const { return settings_.exchange; }
  [[nodiscard]] float moving_rate() const { return settings_.moving_rate; }
  [[nodiscard]] std::uint32_t buffer() const { return settings_.buffer; }
  [[nodiscard]] PushSchedule schedule() const override { return settings_.schedule; }
  [[nodiscard]] std::unique_ptr<const AggregationPolicy> aggregation() const override {
    if (settings_.buffer == 0) return nullptr;
    return std::make_unique<BufferedAggregation>(settings_.buffer, settings_.is_seeded);
  }

 private:
  Settings settings_;
};

}  // namespace taut
