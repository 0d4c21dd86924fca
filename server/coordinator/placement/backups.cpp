#include "server/coordinator/placement/backups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "server/coordinator/placement/shard_hosts.hpp"

namespace taut::placement {
namespace {

// For this long another host is chosen; afterwards a host that was given up may be tried again.
constexpr Duration kGivenUpPause = std::chrono::seconds(60);

/// Whether another server takes work, even if it was given up as a backup of the shard.
bool could_have_backup(const JobRecord& job, const Registry& registry, int number) {
  const auto loads = loads_of(job, registry);
  return std::ranges::any_of(loads, [&](const auto& entry) {
    return !has_part_of(job, job.stored().shards(number), job.server_of(entry.first));
  });
}

}  // namespace

int required_backups(const pb::StoredJob& stored) {
  return static_cast<int>(std::max(stored.replication_copies(), 1U));
}

bool is_all_whole(const JobRecord& job, int number) {
  const auto& backups = job.stored().shards(number).backups();
  return !backups.empty() && std::all_of(backups.begin(), backups.end(), [&](const auto& one) {
    return job.is_whole(number, one);
  });
}

std::optional<std::uint32_t> choose_backup(const JobRecord& job, const Registry& registry,
                                           int number) {
  const pb::StoredShard& shard = job.stored().shards(number);
  auto loads = loads_of(job, registry);
  std::erase_if(loads, [&](const auto& entry) {
    return has_part_of(job, shard, job.server_of(entry.first)) ||
           is_given_up(job, static_cast<std::uint32_t>(number), entry.first);
  });
  if (loads.empty()) return std::nullopt;
  // Among equals the host that follows the primary comes first, so that the backups of one server's
  // shards are spread.
  const std::uint32_t hosts = host_count(job.stored());
  const auto turn = [&](std::uint32_t host) { return (host + hosts - shard.host() - 1) % hosts; };
  int least = std::numeric_limits<int>::max();
  for (const auto& entry : loads) least = std::min(least, entry.second);
  const auto cost = [&](const std::pair<const std::uint32_t, int>& entry) {
    const auto [host, load] = entry;
    const bool is_burdened = load > 2 * least + 1;
    return std::tuple(is_burdened || is_near(job, registry, shard, host), load, turn(host));
  };
  const auto chosen = std::min_element(
      loads.begin(), loads.end(), [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
  return chosen->first;
}

void add_backup(JobRecord& job, int number, std::uint32_t host) {
  pb::StoredShard& shard = *job.change().mutable_shards(number);
  shard.set_copy(shard.copy() + 1);
  pb::StoredBackup& backup = *shard.add_backups();
  backup.set_host(host);
  backup.set_choice(shard.copy());
}

bool remove_backups(JobRecord& job, int number, const BackupPredicate& goes) {
  const auto& backups = job.stored().shards(number).backups();
  if (std::none_of(backups.begin(), backups.end(), goes)) return false;
  pb::StoredShard& shard = *job.change().mutable_shards(number);
  auto& list = *shard.mutable_backups();
  list.erase(std::remove_if(list.begin(), list.end(), goes), list.end());
  shard.set_copy(shard.copy() + 1);
  return true;
}

bool give_backups(JobRecord& job, const Registry& registry, int number) {
  bool changed = remove_backups(
      job, number, [&](const pb::StoredBackup& one) { return is_lost(job, one.host()); });
  const auto goes = [&](const pb::StoredBackup& one) { return leaves(job, registry, one.host()); };
  const auto staying = [&] {
    const auto& backups = job.stored().shards(number).backups();
    return static_cast<int>(std::count_if(backups.begin(), backups.end(), std::not_fn(goes)));
  };
  while (staying() < required_backups(job.stored())) {
    const auto backup = choose_backup(job, registry, number);
    if (!backup) break;
    add_backup(job, number, *backup);
    changed = true;
  }
  // A server that was given up is tried again later: until then only the leaving one has images.
  if (staying() == 0 && could_have_backup(job, registry, number)) return changed;
  // A leaving backup that is not whole protects nothing: another server should get the images.
  if (staying() > 0) {
    changed |= remove_backups(job, number, [&](const pb::StoredBackup& one) {
      return goes(one) && !job.is_whole(number, one);
    });
  }
  const auto& backups = job.stored().shards(number).backups();
  const bool is_complete = std::all_of(backups.begin(), backups.end(), [&](const auto& one) {
    return goes(one) || job.is_whole(number, one);
  });
  return (is_complete && remove_backups(job, number, goes)) || changed;
}

bool give_up_backups(JobRecord& job, TimePoint now, Notes& notes) {
  bool changed = false;
  std::erase_if(job.given_up, [&](const JobRecord::GivenUp& one) { return now >= one.until; });
  for (const JobRecord::Server& server : job.servers) {
    if (server.lost) continue;
    for (const pb::BackupProblem& problem : server.reply.problems()) {
      if (problem.shard() >= static_cast<std::uint32_t>(job.stored().shards_size())) continue;
      const auto number = static_cast<int>(problem.shard());
      const pb::StoredShard& shard = job.stored().shards(number);
      const auto& backups = shard.backups();
      const auto backup = std::find_if(backups.begin(), backups.end(), [&](const auto& one) {
        return one.choice() == problem.choice();
      });
      if (backup == backups.end() || problem.term() != shard.term()) continue;
      notes.add(JobId(job.stored().job()),
                fmt::format("server \"{}\" is given up as a backup of shard {}: {}",
                            name_of(job, backup->host()), number, problem.reason()));
      job.unsuited.emplace(problem.shard(), job.server_of(backup->host()));
      job.given_up.push_back(
          {problem.shard(), backup->host(), now + kGivenUpPause, problem.reason()});
      remove_backups(job, number,
                     [&](const pb::StoredBackup& one) { return one.choice() == problem.choice(); });
      changed = true;
    }
  }
  return changed;
}

bool remove_extra_backups(JobRecord& job, const Registry& registry) {
  bool changed = false;
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    const auto& backups = job.stored().shards(number).backups();
    if (backups.size() <= required_backups(job.stored())) continue;
    const auto loads = loads_of(job, registry);
    const auto cost_of = [&](const pb::StoredBackup& one) {
      const auto load = loads.find(one.host());
      return std::pair(is_near(job, registry, job.stored().shards(number), one.host()),
                       load == loads.end() ? std::numeric_limits<int>::max() : load->second);
    };
    const std::uint64_t choice =
        std::max_element(backups.begin(), backups.end(), [&](const auto& a, const auto& b) {
          return cost_of(a) < cost_of(b);
        })->choice();
    changed |= remove_backups(job, number,
                              [&](const pb::StoredBackup& one) { return one.choice() == choice; });
  }
  return changed;
}

bool spread_backups(JobRecord& job, const Registry& registry) {
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    const pb::StoredShard& shard = job.stored().shards(number);
    const bool is_any_near = std::any_of(shard.backups().begin(), shard.backups().end(),
                                         [&](const pb::StoredBackup& backup) {
                                           return is_near(job, registry, shard, backup.host());
                                         });
    if (!is_any_near || shard.backups_size() > required_backups(job.stored())) continue;
    const auto other = choose_backup(job, registry, number);
    if (!other || is_near(job, registry, shard, *other)) continue;
    // Each attempt costs images, and the shard has a backup.
    const auto had = std::pair(static_cast<std::uint32_t>(number), job.server_of(*other));
    if (job.unsuited.contains(had)) continue;
    add_backup(job, number, *other);
    return true;
  }
  return false;
}

}  // namespace taut::placement
