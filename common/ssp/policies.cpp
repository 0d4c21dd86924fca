#include "common/ssp/policies.hpp"

#include <algorithm>

#include "common/ssp/policies/fixed_bound.hpp"

namespace taut {

Policies::Keeps Policies::keeps() const {
  Keeps all;
  for (const auto& policy : all_) {
    const StalenessPolicy::Keeps one = policy->keeps();
    all.reads |= one.reads;
    all.values |= one.values;
    all.states += one.state ? 1 : 0;
  }
  return all;
}

void Policies::weigh(LateUpdate& update,
                     const std::function<std::span<float>(std::size_t)>& state) const {
  std::size_t states = 0;
  for (const auto& policy : all_) {
    update.state = policy->keeps().state ? state(states++) : std::span<float>();
    policy->weigh(update);
  }
}

std::uint32_t Policies::backup_workers() const {
  std::uint32_t most = 0;
  for (const auto& policy : all_) most = std::max(most, policy->backup_workers());
  return most;
}

PushSchedule Policies::schedule() const {
  for (const auto& policy : all_) {
    const PushSchedule schedule = policy->schedule();
    if (schedule.interval != 1 || schedule.end != Clock::never()) return schedule;
  }
  return {};
}

std::unique_ptr<const AggregationPolicy> Policies::aggregation() const {
  for (const auto& policy : all_) {
    if (auto aggregation = policy->aggregation()) return aggregation;
  }
  return std::make_unique<ModeAggregation>();
}

std::unique_ptr<ReadSlack> Policies::read_slack() const {
  for (const auto& policy : all_) {
    if (auto slack = policy->read_slack()) return slack;
  }
  return std::make_unique<FixedBound>();
}

}  // namespace taut
