#include "lab/losses/early_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace taut::sim {
namespace {

/// The server that has a host; nullptr if the record names none.
const pb::StoredServer* server_of(const pb::StoredJob& job, std::uint32_t host) {
  const auto& servers = job.servers();
  const auto found = std::find_if(servers.begin(), servers.end(), [&](const auto& server) {
    const auto hosts = static_cast<std::uint32_t>(server.shard_addresses_size());
    return host >= server.first_shard() && host < server.first_shard() + hosts;
  });
  return found == servers.end() ? nullptr : &*found;
}

bool is_served(const pb::StoredJob& job, const Survivors& survivors, std::uint32_t shard) {
  const std::uint32_t host = job.shards(static_cast<int>(shard)).host();
  const pb::StoredServer* server = server_of(job, host);
  return server != nullptr && survivors.serves(*server, host, shard);
}

std::uint32_t count_backups(const pb::StoredJob& job, const Survivors& survivors,
                            std::uint32_t shard) {
  const auto& backups = job.shards(static_cast<int>(shard)).backups();
  const auto count = std::count_if(backups.begin(), backups.end(), [&](const auto& one) {
    const pb::StoredServer* server = server_of(job, one.host());
    return server != nullptr && survivors.has_images(*server, one.host(), shard, one.choice());
  });
  return static_cast<std::uint32_t>(count);
}

/// The shard that a message names as lost; nullopt if it names none.
std::optional<std::uint32_t> lost_shard(const pb::StoredJob& job) {
  const std::string word = "; shard ";
  const std::size_t place = job.message().find(word);
  if (place == std::string::npos) return std::nullopt;
  const std::uint64_t shard =
      std::strtoull(job.message().c_str() + place + word.size(), nullptr, 10);
  if (shard >= static_cast<std::uint64_t>(job.shards_size())) return std::nullopt;
  return static_cast<std::uint32_t>(shard);
}

}  // namespace

std::optional<Broken> check_early_end(const pb::StoredJob& job, const Survivors& survivors) {
  const auto broken = [&](const std::string& what) {
    return Broken{"given up", fmt::format("{}, and the job fails: {}", what, job.message())};
  };
  if (job.message().starts_with("every worker was lost")) {
    // Workers may exist, but be taken by a job of higher priority.
    const bool is_shrunk = job.worker_limit() > 0 && job.worker_limit() < job.slots();
    // A worker joins once each server knows of it.
    const bool can_join = std::ranges::all_of(job.servers(), [&](const pb::StoredServer& server) {
      return server.lost() || survivors.is_here(server);
    });
    if (!is_shrunk && can_join && survivors.is_any_worker_here()) {
      return broken("a worker is there");
    }
    return std::nullopt;
  }
  if (job.message().find("of the parameters is lost") == std::string::npos) {
    return broken("nothing is lost");
  }
  if (job.shards().empty()) {
    if (std::ranges::all_of(job.servers(), survivors.is_here)) return broken("no server is lost");
    return std::nullopt;
  }
  const auto shard = lost_shard(job);
  if (!shard) return broken("it does not say which shard is lost");
  if (is_served(job, survivors, *shard)) return broken("the shard's server is there");
  if (count_backups(job, survivors, *shard) == 0) return std::nullopt;
  return broken("a backup has all of the shard");
}

bool has_backups(const pb::StoredJob& job, const Survivors& survivors, std::uint32_t backups) {
  for (std::uint32_t shard = 0; shard < static_cast<std::uint32_t>(job.shards_size()); ++shard) {
    if (!is_served(job, survivors, shard)) return false;
    if (count_backups(job, survivors, shard) < backups) return false;
  }
  return !job.shards().empty();
}

}  // namespace taut::sim
