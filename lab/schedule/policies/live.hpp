#pragma once

#include <memory>

#include "lab/schedule/policy.hpp"
#include "server/coordinator/queue/scheduling.hpp"

namespace taut::schedule {

/// A policy of the coordinator's, the same code over a trace: what runs keeps its devices, and the
/// SchedulingPolicy says which waiting jobs start. It knows how long each job takes, and counts in
/// parts of devices.
class LivePolicy : public Policy {
 public:
  explicit LivePolicy(pb::SchedulingConfig::Policy policy)
      : policy_(make_scheduling_policy(policy)) {}

  [[nodiscard]] bool counts_shares() const override { return true; }
  [[nodiscard]] Plan decide(const View& view) override;

 private:
  /// Which of those that wait it sees. Of those that ask for more than is idle only the first
  /// one matters, which reserves its devices; the first by submission, by what is left and by what
  /// it has had are shown, so that it is among them whatever the policy's order.
  [[nodiscard]] virtual std::vector<JobIndex> candidates(const View& view) const;

  const std::unique_ptr<SchedulingPolicy> policy_;
};

/// As LivePolicy, where waiting jobs are in the order of submission. Most of a long queue is not
/// shown to the policy: what would delay the first job that waits, by its reservation as the policy
/// makes it. Where jobs share devices, parts that are free on several devices are no device for a
/// job: then only jobs that find a place are shown, and none that would take that of the first one.
class LivePolicyInOrder : public LivePolicy {
 public:
  using LivePolicy::LivePolicy;

  [[nodiscard]] Promise promise() const override { return {.keeps_reservation = true}; }

 private:
  [[nodiscard]] std::vector<JobIndex> candidates(const View& view) const override;
  /// Those that start, each with its place as the simulation will choose it.
  [[nodiscard]] static std::vector<JobIndex> placed_candidates(const View& view);
};

}  // namespace taut::schedule
