#include "lab/contract/contract.hpp"

#include <algorithm>
#include <vector>

namespace taut::sim {

Contract Contract::of(const pb::ServerJob& view, std::uint32_t tables) {
  Contract contract;
  contract.tables = tables;
  for (const pb::Member& member : view.members()) {
    contract.members[member.worker()] = {member.incarnation(), member.slot(), member.join_clock(),
                                         member.leave_clock(), member.fenced()};
  }
  for (const pb::ModeChange& change : view.modes()) {
    contract.aggregated[change.first_clock()] = change.mode() == pb::ModeChange::AGGREGATE;
  }
  for (const pb::BoundedFollower& follower : view.followers()) {
    contract.followers[follower.follower()] = follower.from();
  }
  contract.follower_slack = view.follower_slack();
  contract.last_read = kNever;
  contract.slack = view.slack();
  contract.hold_from = view.hold_from();
  contract.replicated = view.replication_interval() > 0;
  contract.mean = view.definition().reduction() == pb::Job::MEAN;
  contract.seed = view.definition().seed();
  contract.compression = view.definition().compression();
  const pb::Consistency& consistency = view.definition().consistency();
  contract.backup_workers = consistency.backup_workers();
  contract.policies = consistency;
  contract.checkpoint = view.checkpoint().number();
  contract.checkpoint_clock = view.checkpoint().clock();
  contract.end = view.definition().solver_param().max_iter();
  contract.is_seeded = view.definition().external_members();
  contract.balance = view.definition().balance();
  if (consistency.has_dynamic_slack()) contract.max_slack = consistency.dynamic_slack().most();
  contract.interval = interval_of(consistency, contract.is_seeded);
  // With periodic averaging, slack counts meetings.
  const bool is_bounded = contract.slack != kNever;
  if (consistency.has_periodic_averaging() && is_bounded) contract.slack *= contract.interval;
  if (consistency.has_elastic_averaging()) contract.mean = false;
  return contract;
}

std::int64_t Contract::next_push(std::int64_t clock, std::uint32_t table) const {
  if (is_seed(clock)) return clock;
  const std::int64_t offset = offset_of(policies, is_seeded, table, tables);
  const std::int64_t last = is_seeded ? kNever : end - 1;
  while ((clock + 1 - offset) % interval != 0 && clock != last) ++clock;
  return clock;
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> Contract::find_shared_slot() const {
  std::map<std::uint32_t, std::vector<std::pair<std::uint32_t, Member>>> of_slot;
  for (const auto& [worker, member] : members) {
    if (member.fenced && member.leave == kNever) continue;
    if (member.join >= member.leave) continue;  // it has trained nothing
    auto& others = of_slot[member.slot];
    for (const auto& [other, its] : others) {
      if (member.join < its.leave && its.join < member.leave) return std::pair(other, worker);
    }
    others.emplace_back(worker, member);
  }
  return std::nullopt;
}

std::size_t Contract::quorum_of(std::size_t members) const {
  if (members <= backup_workers) return members == 0 ? 0 : 1;
  return members - backup_workers;
}

std::size_t Contract::quorum_at(std::int64_t clock) const {
  return quorum_of(count_at(clock));
}

std::size_t Contract::staying_quorum_at(std::int64_t clock) const {
  const auto stays = [&](const auto& entry) {
    const Member& member = entry.second;
    return !member.fenced && member.join <= clock && clock < member.leave;
  };
  return quorum_of(static_cast<std::size_t>(std::ranges::count_if(members, stays)));
}

std::int64_t Contract::pushes(std::int64_t from, std::int64_t until, std::uint32_t table) const {
  from = std::max(from, first_step());
  if (interval == 1) return std::max<std::int64_t>(0, until - from);
  std::int64_t count = 0;
  for (std::int64_t clock = next_push(from, table); clock < until;
       clock = next_push(clock + 1, table)) {
    ++count;
  }
  return count;
}

double Contract::names(std::int64_t from, std::int64_t count) const {
  double sum = 0;
  std::int64_t clock = std::max(from, first_step());
  for (std::int64_t i = 0; i < count; ++i) {
    clock = next_push(clock, 0) + 1;
    sum += static_cast<double>(clock);
  }
  return sum;
}

bool Contract::aggregates_at(std::int64_t clock) const {
  bool aggregates = false;
  for (const auto& [first, mode] : aggregated) {
    if (first <= clock) aggregates = mode;
  }
  return aggregates;
}

std::size_t Contract::count_at(std::int64_t clock) const {
  std::size_t count = 0;
  for (const auto& [worker, member] : members) {
    if (member.join <= clock && clock < member.leave) ++count;
  }
  return count;
}

std::int64_t Contract::slack_at(std::int64_t clock, std::int64_t under) const {
  if (clock == 0) return under;
  if (aggregates_at(clock - 1)) return 0;
  std::int64_t last_aggregated_end = 0;
  bool before = false;
  for (const auto& [first, mode] : aggregated) {
    if (first > clock - 1) break;
    if (before && !mode) last_aggregated_end = first;
    before = mode;
  }
  return std::min(under, clock - last_aggregated_end);
}

}  // namespace taut::sim
