#include "server/coordinator/placement/shard_hosts.hpp"

#include <algorithm>

namespace taut::placement {
namespace {

/// The process of a host's server; nullptr if it is not connected.
const Participant* process_of(const JobRecord& job, const Registry& registry, std::uint32_t host) {
  const int index = job.server_of(host);
  if (index < 0) return nullptr;
  const pb::StoredServer& server = job.stored().servers(index);
  return registry.find_live(pb::ROLE_SERVER, server.name(), Incarnation(server.incarnation()));
}

/// Whether two hosts are on the same machine, as far as is known.
bool share_machine(const JobRecord& job, const Registry& registry, std::uint32_t one,
                   std::uint32_t other) {
  const Participant* first = process_of(job, registry, one);
  const Participant* second = process_of(job, registry, other);
  return first != nullptr && second != nullptr && !first->host.empty() &&
         first->host == second->host;
}

}  // namespace

bool is_lost(const JobRecord& job, std::uint32_t host) {
  const int server = job.server_of(host);
  return server < 0 || job.stored().servers(server).lost();
}

std::uint32_t host_count(const pb::StoredJob& stored) {
  std::uint32_t hosts = 0;
  for (const pb::StoredServer& server : stored.servers()) {
    hosts += static_cast<std::uint32_t>(server.shard_addresses_size());
  }
  return hosts;
}

bool is_near(const JobRecord& job, const Registry& registry, const pb::StoredShard& shard,
             std::uint32_t host) {
  const auto is_other = [&](std::uint32_t other) {
    return other != host && share_machine(job, registry, other, host);
  };
  return is_other(shard.host()) ||
         std::any_of(shard.backups().begin(), shard.backups().end(),
                     [&](const pb::StoredBackup& backup) { return is_other(backup.host()); });
}

bool leaves(const JobRecord& job, const Registry& registry, std::uint32_t host) {
  const Participant* process = process_of(job, registry, host);
  return process != nullptr && process->leaves;
}

std::string name_of(const JobRecord& job, std::uint32_t host) {
  const int server = job.server_of(host);
  return server < 0 ? std::string() : job.stored().servers(server).name();
}

std::map<std::uint32_t, int> loads_of(const JobRecord& job, const Registry& registry) {
  std::map<std::uint32_t, int> loads;
  for (std::uint32_t host = 0; host < host_count(job.stored()); ++host) {
    if (!is_lost(job, host) && !leaves(job, registry, host)) loads[host] = 0;
  }
  for (const pb::StoredShard& shard : job.stored().shards()) {
    if (const auto host = loads.find(shard.host()); host != loads.end()) ++host->second;
    for (const pb::StoredBackup& one : shard.backups()) {
      if (const auto backup = loads.find(one.host()); backup != loads.end()) ++backup->second;
    }
  }
  return loads;
}

bool is_given_up(const JobRecord& job, std::uint32_t shard, std::uint32_t host) {
  return std::ranges::any_of(job.given_up, [&](const JobRecord::GivenUp& one) {
    // Hosts of one server share its memory and its network.
    return one.shard == shard && job.server_of(one.host) == job.server_of(host);
  });
}

bool has_part_of(const JobRecord& job, const pb::StoredShard& shard, int server) {
  if (job.server_of(shard.host()) == server) return true;
  return std::any_of(
      shard.backups().begin(), shard.backups().end(),
      [&](const pb::StoredBackup& one) { return job.server_of(one.host()) == server; });
}

}  // namespace taut::placement
