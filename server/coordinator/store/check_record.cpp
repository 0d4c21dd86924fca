#include "server/coordinator/store/check_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "proto/config/settle_balance.hpp"
#include "proto/message_limits.hpp"

namespace taut {
namespace {

// The same limits as in messages.
constexpr std::uint64_t kMaxHosts = 65536;
constexpr std::uint32_t kMaxSlots = 65536;

std::string damage_of_servers(const pb::StoredJob& stored) {
  std::uint64_t hosts = 0;
  for (const pb::StoredServer& server : stored.servers()) {
    if (server.first_shard() != hosts) {
      return fmt::format("server \"{}\" has the hosts from {} on, and {} are before it",
                         server.name(), server.first_shard(), hosts);
    }
    hosts += static_cast<std::uint64_t>(server.shard_addresses_size());
  }
  if (hosts > kMaxHosts) return fmt::format("{} hosts, the limit is {}", hosts, kMaxHosts);
  for (int i = 0; i < stored.shards_size(); ++i) {
    const pb::StoredShard& shard = stored.shards(i);
    std::uint32_t last = std::max(shard.host(), shard.backup());
    for (const pb::StoredBackup& one : shard.backups()) last = std::max(last, one.host());
    if (last >= hosts) return fmt::format("shard {} is at host {} of {}", i, last, hosts);
  }
  const bool needs_servers = stored.state() == pb::RUNNING || stored.closing() || stored.lingers();
  if (needs_servers && hosts == 0) return "it runs, and has no server";
  return "";
}

std::string damage_of_members(const pb::StoredJob& stored) {
  if (stored.slots() > kMaxSlots) {
    return fmt::format("{} shares of the data, the limit is {}", stored.slots(), kMaxSlots);
  }
  std::int64_t before = -1;
  for (const pb::StoredMember& one : stored.members()) {
    const pb::Member& member = one.member();
    if (member.worker() <= before) {
      return fmt::format("worker {} comes after worker {}", member.worker(), before);
    }
    before = member.worker();
    if (member.slot() >= stored.slots()) {
      return fmt::format("worker {} has share {} of {}", member.worker(), member.slot(),
                         stored.slots());
    }
    if (member.join_clock() < 0 || member.leave_clock() < member.join_clock()) {
      return fmt::format("worker {} is a member for the clocks from {} to {}", member.worker(),
                         member.join_clock(), member.leave_clock());
    }
  }
  return "";
}

std::string damage_of_modes(const pb::StoredJob& stored) {
  for (int i = 0; i < stored.modes_size(); ++i) {
    const std::int64_t clock = stored.modes(i).first_clock();
    const bool follows = i == 0 ? clock == 0 : clock > stored.modes(i - 1).first_clock();
    if (!follows) return fmt::format("mode {} is from clock {} on", i, clock);
  }
  if (!stored.members().empty() && stored.modes().empty()) return "it has members and no mode";
  return stored.slack() < 0 || stored.wanted_slack() < 0
             ? fmt::format("its slack is {} or {}", stored.slack(), stored.wanted_slack())
             : "";
}

std::string damage_of_shares(const pb::StoredJob& stored) {
  if (!stored.definition().balance() || stored.slots() == 0) {
    return stored.shares().empty() && !stored.has_proposed_shares() ? ""
                                                                    : "it has no batch to share";
  }
  const auto shares = to_batch_shares(stored.definition(), stored.slots(), stored.shares());
  if (!shares) return shares.error().message;
  if (!stored.has_proposed_shares()) return "";
  const pb::BatchShares& proposed = stored.proposed_shares();
  const std::vector<std::uint32_t> records(proposed.records().begin(), proposed.records().end());
  return shares.value().why_not(Clock(proposed.first_clock()), records);
}

}  // namespace

std::string damage_of(JobId job, const pb::StoredJob& stored) {
  if (stored.job() != job.value() || stored.job() == 0) {
    return fmt::format("it is stored as job {} and says that it is job {}", job.value(),
                       stored.job());
  }
  if (!pb::JobState_IsValid(stored.state()) || !pb::JobState_IsValid(stored.end_state())) {
    return fmt::format("its state is {}, or {} once it has ended", static_cast<int>(stored.state()),
                       static_cast<int>(stored.end_state()));
  }
  // Text that is not UTF-8, copied from the definition into a message, would make that unreadable.
  if (const auto text = check_utf8(stored.definition()); !text) {
    return "definition." + text.error().message;
  }
  for (const auto check :
       {damage_of_servers, damage_of_members, damage_of_modes, damage_of_shares}) {
    if (std::string damage = check(stored); !damage.empty()) return damage;
  }
  return "";
}

}  // namespace taut
