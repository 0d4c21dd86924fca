#pragma once

#include <memory>

#include "lab/schedule/policy.hpp"
#include "server/coordinator/queue/scheduling.hpp"

namespace taut::schedule {

/// One of the coordinator's policies, run by the same code over a trace: running jobs keep their
/// devices, and the SchedulingPolicy chooses which waiting jobs start. It knows how long each job
/// takes, and counts in parts of devices.
class LivePolicy : public Policy {
 public:
  explicit LivePolicy(pb::SchedulingConfig::Policy policy)
      : policy_(make_scheduling_policy(policy)) {}

  [[nodiscard]] bool counts_shares() const override { return true; }
  [[nodiscard]] Plan decide(const View& view) override;

 private:
  /// The waiting jobs that the policy sees. Of the jobs that request more than is idle only the
  /// first one matters, which reserves its devices; the first ones by submission, by remaining time
  /// and by attained service are shown, so that it is among them whatever the policy's order is.
  [[nodiscard]] virtual std::vector<JobIndex> candidates(const View& view) const;

  const std::unique_ptr<SchedulingPolicy> policy_;
};

/// As LivePolicy, with waiting jobs in the order of submission. Most of a long queue is not shown
/// to the policy: jobs that would delay the first waiting job, by the reservation that the policy
/// makes for it. Where jobs share devices, free parts of several devices do not make a device for a
/// job: then only jobs that find a place are shown, and none that would take the first one's.
class LivePolicyInOrder : public LivePolicy {
 public:
  using LivePolicy::LivePolicy;

  [[nodiscard]] Promise promise() const override { return {.keeps_reservation = true}; }

 private:
  [[nodiscard]] std::vector<JobIndex> candidates(const View& view) const override;
  /// The jobs that start, each with the place that the simulation will choose.
  [[nodiscard]] static std::vector<JobIndex> placed_candidates(const View& view);
};

}  // namespace taut::schedule
