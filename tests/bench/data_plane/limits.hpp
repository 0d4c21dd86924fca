#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace taut::bench {

/// What memory allows the data plane, measured in the same run.

/// One thread copying between two blocks: GB/s of payload.
[[nodiscard]] double memcpy_rate(std::uint64_t bytes);

/// One thread applying each update rule to memory, and a triad in place (a[i] = a[i] + s * b[i])
/// over as many bytes: GB/s of traffic. Each row: rule, its rate, the triad's.
struct RuleRate {
  std::string rule;
  double rule_rate = 0;
  double triad_rate = 0;
};
[[nodiscard]] std::vector<RuleRate> rule_rates(std::uint64_t bytes);

}  // namespace taut::bench
