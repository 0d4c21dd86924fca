// What followers may confirm, and what the models that they read must hold.
#include <fmt/format.h>

#include <algorithm>

#include "lab/contract/checker.hpp"

namespace taut::sim {

/// What a shard's followers have confirmed there, and which reads of its members that allows.
void Checker::limit_reads(ShardSide& shard) {
  Contract& contract = *shard.contract;
  std::erase_if(shard.confirmed,
                [&](const auto& entry) { return !contract.followers.contains(entry.first); });
  contract.last_read = kNever;
  for (const auto& [follower, from] : contract.followers) {
    const std::int64_t confirmed = shard.confirmed.try_emplace(follower, from).first->second;
    contract.last_read = std::min(contract.last_read, confirmed + contract.follower_slack);
  }
}

/// A follower may confirm what its program has taken, and no more.
std::optional<Broken> Checker::take_confirmation(ShardSide& shard, const Event& event) {
  const std::uint64_t follower = event.incarnation.value();
  const std::int64_t version = event.version.value();
  const auto taken = taken_.find(follower);
  if (taken == taken_.end() || taken->second < version) {
    return Broken{"follower",
                  fmt::format("follower {} confirms version {}, and has taken {}", follower,
                              version, taken == taken_.end() ? -1 : taken->second)};
  }
  const auto known = shard.confirmed.find(follower);
  if (!shard.contract || shard.forgotten || known == shard.confirmed.end()) return std::nullopt;
  known->second = std::max(known->second, version);
  limit_reads(shard);
  for (auto& [key, slice] : shard.slices) {
    slice->take_confirmation(*shard.contract);
    shard.touched.push_back(slice.get());
  }
  return std::nullopt;
}

/// How many updates of a member that was lost with a primary certainly exist: with logged updates,
/// those that some worker has read.
std::int64_t Checker::kept_for_sure(TableId table, std::uint32_t slice,
                                    std::uint32_t member) const {
  std::int64_t most = 0;
  if (!logs_updates_) return most;
  for (const auto& [number, reader] : workers_) {
    const auto seen = reader.seen.find(table.value());
    if (seen == reader.seen.end() || seen->second.empty()) continue;
    const float count = seen->second[std::size_t{slice} * kSliceElements + 2UL * member];
    most = std::max(most, static_cast<std::int64_t>(-count));
  }
  return most;
}

/// Records whose updates a shard owed a follower when it answered.
void Checker::note_answered(const ShardSide& shard, const Event& event) {
  const bool is_answer =
      event.kind == Event::Kind::kReply && event.item == pb::DataItem::FOLLOW_VALUE;
  if (!is_answer || !servers_are_lost_) return;
  auto& versions = answered_[{event.table.value(), event.slice.value()}];
  const auto [entry, is_first] = versions.try_emplace(event.clock.value(), shard.known);
  if (!is_first) std::erase_if(entry->second, [&](auto one) { return !shard.known.contains(one); });
}

/// Whether a model of this version owes a member's updates in this slice. A primary may have
/// answered with updates that were lost with it and their worker; a worker that joined since then
/// trains those clocks again, and the model that was read is not changed.
bool Checker::was_due(const SliceKey& slice, std::int64_t version, std::uint32_t member) const {
  const auto versions = answered_.find(slice);
  if (!moved_to_.contains(slice) || versions == answered_.end()) return true;
  const auto known = versions->second.find(version);
  return known == versions->second.end() || known->second.contains(member);
}

/// Every slice of a follower's model holds each member's updates before its version; in BSP no
/// others.
std::optional<Broken> Checker::check_model(const Event& event, std::span<const float> values) {
  std::int64_t& taken = taken_[event.incarnation.value()];
  const std::int64_t version = event.version.value();
  if (version < taken) {
    return Broken{"follow", fmt::format("a follower that had version {} gets {}", taken, version)};
  }
  taken = version;
  if (!job_.counts() || job_.policies.backup_workers() > 0) return std::nullopt;
  for (std::uint32_t slice = 0; slice < job_.slices; ++slice) {
    const auto part = values.subspan(std::size_t{slice} * kSliceElements, kSliceElements);
    for (const auto& [worker, member] : newest_.members) {
      if (!was_due({event.table.value(), slice}, version, worker)) continue;
      const bool may_lack = member.fenced && moved_to_.contains({event.table.value(), slice});
      const auto count = static_cast<std::int64_t>(-part[2UL * worker]);
      std::int64_t due = newest_.pushes(member.join, std::min(version, member.leave));
      if (may_lack) due = std::min(due, kept_for_sure(event.table, slice, worker));
      // The next update may be of a later clock, at which the mode is different.
      const bool is_exact = version > 0 && !member.fenced && newest_.aggregates_at(version - 1) &&
                            newest_.aggregates_at(newest_.next_push(version, event.table.value()));
      if (count < due || (is_exact && count > due)) {
        return Broken{"follow",
                      fmt::format("a model of version {} holds {} updates of worker {} in "
                                  "table {} slice {}; {} are due",
                                  version, count, worker, event.table.value(), slice, due)};
      }
    }
  }
  return std::nullopt;
}

}  // namespace taut::sim
