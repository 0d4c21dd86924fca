#pragma once

#include "common/ssp/staleness_policy.hpp"

namespace taut {

/// Workers read where the parameters will be when their gradients arrive. It changes only the
/// update rule (math::UpdateRule::looks_ahead).
class LookAhead final : public StalenessPolicy {
 public:
  static constexpr PolicyInfo kInfo{.name = "look_ahead", .mode = PolicyMode::kArrivals};
};

}  // namespace taut
