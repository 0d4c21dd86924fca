#include "lab/schedule/policies/live.hpp"
#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {

/// Shortest job first, as in the coordinator: running jobs are not stopped.
/// Source    Smith, "Various Optimizers for Single-Stage Production", Naval Research Logistics
///           Quarterly 3, 1956
std::unique_ptr<Policy> make_shortest() {
  return std::make_unique<LivePolicy>(pb::SchedulingConfig::SHORTEST_REMAINING);
}

}  // namespace taut::schedule
