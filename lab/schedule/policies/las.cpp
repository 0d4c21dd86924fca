#include "lab/schedule/policies/live.hpp"
#include "lab/schedule/policy_list.hpp"

namespace taut::schedule {

/// Least attained service, as in the coordinator: running jobs are not stopped, so that jobs
/// without preemption are in the order of submission.
/// Source    Nuyens and Wierman, "The Foreground-Background Queue: A Survey", Performance
///           Evaluation 65, 2008; for training jobs: Tiresias (tiresias.cpp)
std::unique_ptr<Policy> make_las() {
  return std::make_unique<LivePolicyInOrder>(pb::SchedulingConfig::LEAST_ATTAINED_SERVICE);
}

}  // namespace taut::schedule
