#include "lab/schedule/policies/live.hpp"
#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {

/// EASY backfilling, with perfect estimates: the first job that must wait reserves its devices, and
/// later ones start if that does not delay it.
/// Source    Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995
std::unique_ptr<Policy> make_backfill() {
  return std::make_unique<LivePolicyInOrder>(pb::SchedulingConfig::FIFO);
}

}  // namespace taut::schedule
