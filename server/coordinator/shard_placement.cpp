#include "server/coordinator/shard_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace taut {
namespace {

/// The server of a job that has a host, by its index.
int server_of(const pb::StoredJob& stored, std::uint32_t host) {
  for (int i = 0; i < stored.servers_size(); ++i) {
    const pb::StoredServer& server = stored.servers(i);
    const std::uint32_t end =
        server.first_shard() + static_cast<std::uint32_t>(server.shard_addresses_size());
    if (host >= server.first_shard() && host < end) return i;
  }
  return -1;
}

bool is_lost(const pb::StoredJob& stored, std::uint32_t host) {
  const int server = server_of(stored, host);
  return server < 0 || stored.servers(server).lost();
}

std::uint32_t host_count(const pb::StoredJob& stored) {
  std::uint32_t hosts = 0;
  for (const pb::StoredServer& server : stored.servers()) {
    hosts += static_cast<std::uint32_t>(server.shard_addresses_size());
  }
  return hosts;
}

/// The host on another server than the primary's that has the least to do; nothing: there is no
/// other server.
std::optional<std::uint32_t> choose_backup(const pb::StoredJob& stored, std::uint32_t primary) {
  std::map<std::uint32_t, int> load;
  for (std::uint32_t host = 0; host < host_count(stored); ++host) {
    if (!is_lost(stored, host) && server_of(stored, host) != server_of(stored, primary)) {
      load[host] = 0;
    }
  }
  if (load.empty()) return std::nullopt;
  for (const pb::StoredShard& shard : stored.shards()) {
    if (const auto host = load.find(shard.host()); host != load.end()) ++host->second;
    const auto backup = shard.has_backup() ? load.find(shard.backup()) : load.end();
    if (backup != load.end()) ++backup->second;
  }
  // The host that follows the primary comes first among equals: backups of one server's shards
  // are spread.
  const std::uint32_t hosts = host_count(stored);
  const auto turn = [&](std::uint32_t host) { return (host + hosts - primary - 1) % hosts; };
  const auto chosen = std::ranges::min_element(
      load, {}, [&](const auto& entry) { return std::pair(entry.second, turn(entry.first)); });
  return chosen->first;
}

/// Chooses a backup for a shard that has none, or has lost it. Returns whether anything changed.
bool give_backup(JobRecord& job, int number) {
  const pb::StoredShard& shard = job.stored().shards(number);
  const auto backup = choose_backup(job.stored(), shard.host());
  if (!backup && !shard.has_backup()) return false;
  pb::StoredShard& given = *job.change().mutable_shards(number);
  given.clear_backup();
  if (!backup) return true;
  given.set_backup(*backup);
  given.set_copy(given.copy() + 1);
  return true;
}

/// Whether a backup has reported that it holds an image of every slice.
bool is_protected(const JobRecord& job, int number) {
  const pb::StoredShard& shard = job.stored().shards(number);
  if (!shard.has_backup()) return false;
  const int server = server_of(job.stored(), shard.backup());
  if (server < 0 || job.stored().servers(server).lost()) return false;
  const auto& copies = job.servers[static_cast<std::size_t>(server)].reply.copies();
  return std::any_of(copies.begin(), copies.end(), [&](const pb::ShardCopy& copy) {
    return copy.shard() == static_cast<std::uint32_t>(number) && copy.complete() &&
           copy.copy() == shard.copy() && copy.term() == shard.term();
  });
}

/// Servers that have joined since the job started can keep images too.
bool add_new_servers(JobRecord& job, const Registry& registry) {
  bool added = false;
  for (const Participant* server : registry.live(pb::ROLE_SERVER)) {
    if (job.find_server(server->name, server->incarnation) >= 0) continue;
    pb::StoredJob& stored = job.change();
    const std::uint32_t first = host_count(stored);
    pb::StoredServer& joined = *stored.add_servers();
    joined.set_name(server->name);
    joined.set_session(server->session);
    joined.set_incarnation(server->incarnation.value());
    joined.set_first_shard(first);
    for (const std::string& address : server->shard_addresses) joined.add_shard_addresses(address);
    job.servers.emplace_back();
    added = true;
  }
  return added;
}

/// What is being prepared counts on the servers that were there: it is withdrawn.
void withdraw_preparations(JobRecord& job, CheckpointTasks& tasks) {
  pb::StoredJob& stored = job.change();
  const auto kind = stored.preparing().kind();
  if (stored.has_preparing() && kind != pb::EpochChange::LEAVE) {
    stored.clear_preparing();
    stored.set_hold_from(Clock::never().value());
  }
  if (stored.has_checkpoint() && !job.finishes_checkpoint) withdraw_checkpoint(job, tasks);
}

}  // namespace

void place_shards(JobRecord& job, std::uint32_t interval) {
  pb::StoredJob& stored = job.change();
  // Which of a clock's updates counted under backup workers is not in an image that is older.
  const bool counts_first = stored.definition().consistency().backup_workers() > 0;
  if (interval == 0 || stored.servers_size() < 2 || counts_first) return;
  stored.set_replication_interval(interval);
  for (std::uint32_t host = 0; host < host_count(stored); ++host) {
    pb::StoredShard& shard = *stored.add_shards();
    shard.set_host(host);
    shard.set_term(1);
  }
  for (int number = 0; number < stored.shards_size(); ++number) give_backup(job, number);
}

std::string replace_lost_servers(JobRecord& job, const Registry& registry, CheckpointTasks& tasks,
                                 Notes& notes) {
  std::string names;
  for (int i = 0; i < job.stored().servers_size(); ++i) {
    const pb::StoredServer& server = job.stored().servers(i);
    if (server.lost() ||
        registry.find_live(pb::ROLE_SERVER, server.name(), Incarnation(server.incarnation()))) {
      continue;
    }
    const std::string reason =
        registry.loss_of(pb::ROLE_SERVER, server.name(), Incarnation(server.incarnation()));
    if (job.stored().shards().empty()) return reason + "; its part of the parameters is lost";
    names += (names.empty() ? "" : "; ") + reason;
    job.change().mutable_servers(i)->set_lost(true);
    job.servers[static_cast<std::size_t>(i)].lost = true;
  }
  if (job.stored().shards().empty()) return "";
  bool changed = false;
  bool moved = false;
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    const pb::StoredShard& shard = job.stored().shards(number);
    if (!is_lost(job.stored(), shard.host())) continue;
    // After a restart of the coordinator: it has not said yet what it keeps.
    const int backup = shard.has_backup() ? server_of(job.stored(), shard.backup()) : -1;
    const bool is_unheard = backup >= 0 && !job.stored().servers(backup).lost() &&
                            job.servers[static_cast<std::size_t>(backup)].reply.revision() == 0;
    if (is_unheard) continue;
    if (!is_protected(job, number)) {
      return fmt::format(
          "{}; shard {} of the parameters is lost with it: {}",
          names.empty() ? "its server was lost" : names, number,
          shard.has_backup() ? "its backup does not have all of it yet" : "it has no backup");
    }
    pb::StoredShard& taken = *job.change().mutable_shards(number);
    taken.set_host(taken.backup());
    taken.set_term(taken.term() + 1);
    taken.clear_backup();
    notes.push_back(fmt::format(
        "job {}: shard {} is taken over by server \"{}\", term {}", job.stored().job(), number,
        job.stored().servers(server_of(job.stored(), taken.host())).name(), taken.term()));
    moved = changed = true;
  }
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    const pb::StoredShard& shard = job.stored().shards(number);
    if (shard.has_backup() && !is_lost(job.stored(), shard.backup())) continue;
    changed |= add_new_servers(job, registry);
    changed |= give_backup(job, number);
  }
  if (!names.empty()) notes.push_back(fmt::format("job {}: {}", job.stored().job(), names));
  if (!changed) return "";
  if (moved) {
    withdraw_preparations(job, tasks);
    for (int i = 0; i < job.stored().members_size(); ++i) {
      if (job.works(job.stored().members(i))) job.revise_worker(i);
    }
  }
  job.revise();
  return "";
}

std::vector<pb::ShardStatus> shard_status(const JobRecord& job) {
  std::vector<pb::ShardStatus> shards;
  const auto name_of = [&](std::uint32_t host) {
    const int server = server_of(job.stored(), host);
    return server < 0 ? std::string() : job.stored().servers(server).name();
  };
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    const pb::StoredShard& shard = job.stored().shards(number);
    pb::ShardStatus& status = shards.emplace_back();
    status.set_server(name_of(shard.host()));
    status.set_term(shard.term());
    if (shard.has_backup()) status.set_backup(name_of(shard.backup()));
    status.set_is_protected(is_protected(job, number));
  }
  return shards;
}

bool is_settling(const JobRecord& job) {
  return std::any_of(job.servers.begin(), job.servers.end(), [&](const JobRecord::Server& server) {
    return !server.lost && server.reply.settling();
  });
}

}  // namespace taut
