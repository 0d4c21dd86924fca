// The content of a slice once the updates that it accepted have been applied.
#include <algorithm>

#include "lab/contract/slice_oracle.hpp"
#include "lab/toy_outer.hpp"

namespace taut::sim {

void SliceOracle::apply_ready(const Contract& contract) {
  for (auto next = ready(contract); !next.empty(); next = ready(contract)) apply(next, contract);
}

std::vector<SliceOracle::Pushed> SliceOracle::ready(const Contract& contract) const {
  if (held_.empty()) return {};
  if (buffer_of(contract.policies) > 0) return ready_of_buffer(contract);
  const auto& [clock, workers] = *held_.begin();
  if (!contract.aggregates_at(clock)) return {{clock, workers.front()}};
  std::vector<Pushed> all;
  std::size_t arrived = 0;
  for (const std::uint32_t worker : workers) {
    const auto member = contract.members.find(worker);
    const bool takes_part = member != contract.members.end() && member->second.join <= clock &&
                            clock < member->second.leave;
    if (takes_part) ++arrived;
    all.push_back({clock, worker});
  }
  return arrived < contract.quorum_at(clock) ? std::vector<Pushed>() : all;
}

/// The oldest updates, which fill the buffer. Fewer if no others are awaited: all those below the
/// end or below a due checkpoint, and what departed members have left.
std::vector<SliceOracle::Pushed> SliceOracle::ready_of_buffer(const Contract& contract) const {
  std::vector<Pushed> oldest;
  bool waits = contract.is_seeded || version_ < contract.end;
  if (aside_.due && contract.next_push(version_, table_.value()) >= contract.checkpoint_clock) {
    waits = false;
  }
  for (const auto& [clock, workers] : held_) {
    if (contract.is_seed(clock)) return {{clock, workers.front()}};
    for (const std::uint32_t worker : workers) {
      const auto member = contract.members.find(worker);
      if (member == contract.members.end() || member->second.leave != kNever) waits = false;
      if (oldest.size() < buffer_of(contract.policies)) oldest.push_back({clock, worker});
    }
  }
  const bool is_full = oldest.size() == buffer_of(contract.policies);
  return is_full || !waits ? oldest : std::vector<Pushed>();
}

void SliceOracle::apply(const std::vector<Pushed>& updates, const Contract& contract) {
  earlier_.push_back({values_, applications_, rows_});
  if (contract.is_seed(updates.front().clock)) {
    seed(updates.front().worker);
  } else {
    descend(updates, contract);
  }
  for (const Pushed& of : updates) {
    applied_[of.worker] = of.clock + 1;
    auto& left = held_.at(of.clock);
    std::erase(left, of.worker);
    if (left.empty()) held_.erase(of.clock);
  }
}

void SliceOracle::seed(std::uint32_t worker) {
  if (applications_ > 0) return;
  toy_seed(table_, slice_, WorkerId(worker), values_);
  ++applications_;
}

/// The factor on the sum of updates that are applied as one.
float SliceOracle::scale_of(const std::vector<Pushed>& updates, const Contract& contract) const {
  auto members = static_cast<double>(contract.count_at(updates.back().clock));
  if (contract.backup_workers > 0) members = static_cast<double>(updates.size());
  if (buffer_of(contract.policies) > 0) members = buffer_of(contract.policies);
  // If all updates of a clock are applied as one, the result is their weighted mean.
  double weight = 0;
  for (const Pushed& of : updates) weight += weight_of(of);
  if (contract.balance && members == static_cast<double>(updates.size())) members = weight;
  return contract.mean ? static_cast<float>(1.0 / members) : 1.0F;
}

void SliceOracle::descend(const std::vector<Pushed>& updates, const Contract& contract) {
  if (rows_) {
    descend_rows(updates, contract);
    return;
  }
  std::vector<float> sum(kSliceElements, 0.0F);
  std::vector<float> update(kSliceElements);
  bool first = true;
  for (const Pushed& of : updates) {
    toy_update(table_, slice_, WorkerId(of.worker), Clock(of.clock), update);
    arrive(contract.compression,
           {contract.seed, contract.members.at(of.worker).slot, table_, slice_, of.clock,
            plain_.contains({of.worker, of.clock})},
           update, kept_[of.worker]);
    for (float& one : update) one *= weight_of(of);
    if (!contract.aggregates_at(of.clock)) weigh(of, contract, updates.size(), update);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = first ? update[i] : sum[i] + update[i];
    first = false;
  }
  const float scale = scale_of(updates, contract);
  for (float& one : sum) one *= scale;
  // Seeding the values was not a step of the rule; if all members that could seed were lost, none
  // did.
  const std::int64_t steps = std::max<std::int64_t>(applications_ - contract.first_step(), 0);
  step(contract.policies, steps, sum, values_, states_);
  ++applications_;
}

void SliceOracle::descend_rows(const std::vector<Pushed>& updates, const Contract& contract) {
  std::vector<RowModel::Pushed> pushed;
  for (const Pushed& of : updates) {
    std::vector<float> weight{weight_of(of)};
    if (!contract.aggregates_at(of.clock)) weigh(of, contract, updates.size(), weight);
    pushed.push_back({of.worker, of.clock, weight.front()});
  }
  const std::int64_t newest = updates.back().clock;
  // Several aggregates may become complete at once when a member leaves.
  rows_->apply(pushed, scale_of(updates, contract), std::min(version_, newest + 1));
  ++applications_;
}

float SliceOracle::weight_of(const Pushed& of) const {
  const auto found = weights_.find({of.worker, of.clock});
  return found == weights_.end() ? 1.0F : found->second;
}

void SliceOracle::weigh(const Pushed& of, const Contract& contract, std::size_t together,
                        std::vector<float>& update) {
  const auto base = bases_.find(of.worker);
  if (base == bases_.end()) return;
  const auto since = static_cast<double>(applications_ - base->second.applications) *
                     static_cast<double>(together);
  const auto members = static_cast<double>(contract.count_at(of.clock));
  const double staleness = since / (contract.mean ? members : 1.0);
  sim::weigh(contract.policies, {update, values_, base->second.values, staleness, states_});
}

void SliceOracle::note_base(std::uint32_t worker, std::int64_t clock, const Contract& contract) {
  if (!contract.keeps_reads()) return;
  Base& base = bases_[worker];
  if (clock >= base.clock) base = {clock, applications_, values_};
}

}  // namespace taut::sim
