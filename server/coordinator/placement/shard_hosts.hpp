#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "server/coordinator/registry.hpp"
#include "server/coordinator/store/job_record.hpp"

/// What a job's hosts are: a host is one shard's place at a server, counted over all of the job's
/// servers. A server is meant by its index in the job.
namespace taut::placement {

[[nodiscard]] std::uint32_t host_count(const pb::StoredJob& stored);
[[nodiscard]] bool is_lost(const JobRecord& job, std::uint32_t host);
/// The name of its server; empty: it is none of the job's.
[[nodiscard]] std::string name_of(const JobRecord& job, std::uint32_t host);
/// Whether the server of a host leaves: it takes nothing over, and what it has moves away.
[[nodiscard]] bool leaves(const JobRecord& job, const Registry& registry, std::uint32_t host);
/// How many shards each host that takes work serves or keeps the images of.
[[nodiscard]] std::map<std::uint32_t, int> loads_of(const JobRecord& job, const Registry& registry);

/// Whether another host than this one that has a shard is on its machine, as far as is known.
[[nodiscard]] bool is_near(const JobRecord& job, const Registry& registry,
                           const pb::StoredShard& shard, std::uint32_t host);
/// Whether a server, by its index, serves a shard or keeps its images.
[[nodiscard]] bool has_part_of(const JobRecord& job, const pb::StoredShard& shard, int server);
/// Whether the server of a host could lately not be a backup of a shard.
[[nodiscard]] bool is_given_up(const JobRecord& job, std::uint32_t shard, std::uint32_t host);

}  // namespace taut::placement
