#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "server/coordinator/registry.hpp"
#include "server/coordinator/store/job_record.hpp"

/// A job's hosts: a host is the place of one shard on a server, numbered over all of the job's
/// servers. Servers are given by their index in the job.
namespace taut::placement {

[[nodiscard]] std::uint32_t host_count(const pb::StoredJob& stored);
[[nodiscard]] bool is_lost(const JobRecord& job, std::uint32_t host);
/// The name of a host's server; empty if the host is not one of the job's.
[[nodiscard]] std::string name_of(const JobRecord& job, std::uint32_t host);
/// Whether a host's server is leaving: it takes over nothing, and its shards move away.
[[nodiscard]] bool leaves(const JobRecord& job, const Registry& registry, std::uint32_t host);
/// How many shards each host that takes work serves or keeps images of.
[[nodiscard]] std::map<std::uint32_t, int> loads_of(const JobRecord& job, const Registry& registry);

/// Whether another host that has the shard is on this host's machine, as far as is known.
[[nodiscard]] bool is_near(const JobRecord& job, const Registry& registry,
                           const pb::StoredShard& shard, std::uint32_t host);
/// Whether a server, by its index, serves a shard or keeps its images.
[[nodiscard]] bool has_part_of(const JobRecord& job, const pb::StoredShard& shard, int server);
/// Whether a host's server was recently given up as a backup of a shard.
[[nodiscard]] bool is_given_up(const JobRecord& job, std::uint32_t shard, std::uint32_t host);

}  // namespace taut::placement
