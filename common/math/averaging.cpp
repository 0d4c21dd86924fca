#include "common/math/averaging.hpp"

#include "common/check.hpp"

namespace taut::math {

void periodic_update(std::span<const float> local, std::span<const float> shared,
                     std::span<float> update) {
  TAUT_CHECK(local.size() == update.size() && shared.size() == update.size(), "one table");
  for (std::size_t i = 0; i < update.size(); ++i) update[i] = shared[i] - local[i];
}

void elastic_update(float rate, std::span<float> local, std::span<const float> shared,
                    std::span<float> update) {
  TAUT_CHECK(local.size() == update.size() && shared.size() == update.size(), "one table");
  for (std::size_t i = 0; i < update.size(); ++i) {
    const float pull = rate * (local[i] - shared[i]);
    local[i] -= pull;
    update[i] = -pull;
  }
}

}  // namespace taut::math
