#include "server/coordinator/placement/shard_status.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "server/coordinator/placement/backups.hpp"
#include "server/coordinator/placement/shard_hosts.hpp"

namespace taut {
namespace {

using namespace placement;

/// Whether a shard can be taken over now.
bool is_protected(const JobRecord& job, int number) {
  const auto& backups = job.stored().shards(number).backups();
  return std::any_of(backups.begin(), backups.end(),
                     [&](const pb::StoredBackup& one) { return job.is_whole(number, one); });
}

}  // namespace

std::vector<pb::ShardStatus> shard_status(const JobRecord& job) {
  std::vector<pb::ShardStatus> shards;
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    const pb::StoredShard& shard = job.stored().shards(number);
    pb::ShardStatus& status = shards.emplace_back();
    status.set_server(name_of(job, shard.host()));
    status.set_term(shard.term());
    int whole = 0;
    for (const pb::StoredBackup& one : shard.backups()) {
      pb::BackupStatus& backup = *status.add_backups();
      backup.set_server(name_of(job, one.host()));
      backup.set_is_whole(job.is_whole(number, one));
      whole += backup.is_whole() ? 1 : 0;
    }
    status.set_is_protected(is_protected(job, number));
    status.set_wanted_backups(static_cast<std::uint32_t>(required_backups(job.stored())));
    if (whole >= required_backups(job.stored())) continue;
    for (const JobRecord::GivenUp& one : job.given_up) {
      if (one.shard != static_cast<std::uint32_t>(number)) continue;
      status.set_problem(fmt::format("server \"{}\": {}", name_of(job, one.host), one.reason));
    }
  }
  return shards;
}

std::optional<pb::NoBackups> no_backups(const JobRecord& job) {
  if (!job.stored().shards().empty()) return std::nullopt;
  pb::NoBackups status;
  status.set_shards(host_count(job.stored()));
  // A single server has no place for backups, whatever the interval.
  status.set_reason(job.stored().servers_size() < 2
                        ? "the job started on one server"
                        : "the job started with replication { interval: 0 }");
  return status;
}

void add_backup_lags(const JobRecord& job,
                     const std::map<std::string, std::vector<pb::ShardLoad>>& loads,
                     pb::JobStatus& status) {
  const auto add = [&](int number, const pb::BackupLag& lag) {
    const pb::StoredShard& shard = job.stored().shards(number);
    for (int backup = 0; backup < shard.backups_size(); ++backup) {
      if (shard.backups(backup).choice() != lag.choice()) continue;
      pb::BackupStatus& one = *status.mutable_shards(number)->mutable_backups(backup);
      one.set_behind_s(lag.behind_s());
      one.set_behind_clocks(lag.behind_clocks());
    }
  };
  for (int number = 0; number < status.shards_size(); ++number) {
    const pb::StoredShard& shard = job.stored().shards(number);
    const auto primary = loads.find(name_of(job, shard.host()));
    if (primary == loads.end()) continue;
    for (const pb::ShardLoad& load : primary->second) {
      for (const pb::BackupLag& lag : load.backup_lags()) {
        const bool is_of_shard = lag.job() == job.stored().job() && lag.term() == shard.term() &&
                                 lag.shard() == static_cast<std::uint32_t>(number);
        if (is_of_shard) add(number, lag);
      }
    }
  }
}

}  // namespace taut
