#include "server/coordinator/placement/shard_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/checkpoints/checkpoint_orders.hpp"
#include "server/coordinator/epoch_change.hpp"
#include "server/coordinator/placement/backups.hpp"
#include "server/coordinator/placement/shard_hosts.hpp"

namespace taut {
namespace {

using namespace placement;

/// The host that takes over a shard: the least loaded of those that have all of it; nullopt if
/// there is none.
std::optional<std::uint32_t> find_successor(const JobRecord& job, const Registry& registry,
                                            int number) {
  const auto loads = loads_of(job, registry);
  std::optional<std::pair<int, std::uint32_t>> best;
  for (const pb::StoredBackup& one : job.stored().shards(number).backups()) {
    if (!job.is_whole(number, one)) continue;
    const auto load = loads.find(one.host());
    // A server that leaves would have to hand it over again.
    const int cost = load == loads.end() ? std::numeric_limits<int>::max() : load->second;
    if (!best || cost < best->first) best = {cost, one.host()};
  }
  return best ? std::optional(best->second) : std::nullopt;
}

/// Makes a backup serve a shard from now on. REQUIRES: it is whole.
void move_to_backup(JobRecord& job, int number, std::uint32_t host, const char* verb,
                    Notes& notes) {
  remove_backups(job, number, [&](const pb::StoredBackup& one) { return one.host() == host; });
  pb::StoredShard& shard = *job.change().mutable_shards(number);
  shard.set_host(host);
  shard.set_term(shard.term() + 1);
  notes.add(JobId(job.stored().job()), fmt::format("shard {} {} server \"{}\", term {}", number,
                                                   verb, name_of(job, host), shard.term()));
}

/// Adds servers that have joined since the job started: they can keep images too.
bool add_new_servers(JobRecord& job, const Registry& registry) {
  bool added = false;
  for (const Participant* server : registry.available(pb::ROLE_SERVER)) {
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

/// Withdraws what is being prepared, as it relies on the previous servers.
void withdraw_preparations(JobRecord& job, CheckpointTasks& tasks) {
  pb::StoredJob& stored = job.change();
  const auto kind = stored.preparing().kind();
  if (stored.has_preparing() && kind != pb::EpochChange::LEAVE) {
    stored.clear_preparing();
    stored.set_hold_from(Clock::never().value());
  }
  if (stored.has_checkpoint() && !job.finishes_checkpoint) withdraw_checkpoint(job, tasks);
}

/// Whether a checkpoint is being written, or will be soon. One that is ordered for a distant clock
/// can be withdrawn and ordered again.
bool is_saving(const JobRecord& job) {
  return job.stored().has_checkpoint() &&
         (job.finishes_checkpoint || job.stored().checkpoint().clock() <= first_free_clock(job));
}

/// Whether no worker gets an answer from a server: all report so about some shard that it serves
/// now. Workers that do not know of the job yet do not count.
bool answers_no_worker(const JobRecord& job, int server) {
  bool any = false;
  for (int i = 0; i < job.stored().members_size(); ++i) {
    const pb::StoredMember& member = job.stored().members(i);
    if (!job.works(member) || !job.workers[static_cast<std::size_t>(i)].notified) continue;
    const pb::SilentShard& silent = member.progress().silent();
    const auto shards = static_cast<std::uint32_t>(job.stored().shards_size());
    if (!member.progress().has_silent() || silent.shard() >= shards) return false;
    const pb::StoredShard& shard = job.stored().shards(static_cast<int>(silent.shard()));
    if (shard.term() != silent.term() || job.server_of(shard.host()) != server) return false;
    any = true;
  }
  return any;
}

/// Whether a server is alive and answers the coordinator but not its workers, and others can take
/// over all that it serves: one of its threads hangs, or a network has failed between them. The job
/// then continues without the server.
bool is_to_give_up(const JobRecord& job, const Registry& registry, int server) {
  const pb::StoredServer& stored = job.stored().servers(server);
  if (stored.lost() || !answers_no_worker(job, server)) return false;
  const Participant* process =
      registry.find_live(pb::ROLE_SERVER, stored.name(), Incarnation(stored.incarnation()));
  // A dead or suspended server is lost through its silence instead: it is used again if it returns.
  if (process != nullptr && registry.is_silent(*process)) return false;
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    if (job.server_of(job.stored().shards(number).host()) != server) continue;
    const auto successor = find_successor(job, registry, number);
    if (!successor || job.server_of(*successor) == server) return false;
  }
  return true;
}

/// Marks servers that are lost. Returns what has happened to them; empty if none was lost.
std::string note_lost_servers(JobRecord& job, const Registry& registry) {
  std::string names;
  const auto lose = [&](int i, const std::string& what) {
    names += (names.empty() ? "" : "; ") + what;
    pb::StoredServer& lost = *job.change().mutable_servers(i);
    lost.set_lost(true);
    lost.set_last_order(job.stored().checkpoints_ordered());
    job.servers[static_cast<std::size_t>(i)].lost = true;
  };
  for (int i = 0; i < job.stored().servers_size(); ++i) {
    const pb::StoredServer& server = job.stored().servers(i);
    const Incarnation incarnation(server.incarnation());
    if (server.lost() || registry.find_live(pb::ROLE_SERVER, server.name(), incarnation)) continue;
    lose(i, registry.loss_of(pb::ROLE_SERVER, server.name(), incarnation));
  }
  // The remaining servers take over their shards.
  for (int i = 0; i < job.stored().servers_size(); ++i) {
    if (!is_to_give_up(job, registry, i)) continue;
    lose(i, fmt::format("server \"{}\" answers no worker, and takes no work until it is restarted",
                        job.stored().servers(i).name()));
    job.change().mutable_servers(i)->set_given_up(true);
  }
  return names;
}

const char* why_lost(const JobRecord& job, int number) {
  const auto& backups = job.stored().shards(number).backups();
  if (backups.empty()) return "it has no backup";
  const bool are_lost = std::all_of(backups.begin(), backups.end(),
                                    [&](const auto& one) { return is_lost(job, one.host()); });
  if (are_lost) return backups.size() == 1 ? "so is its backup" : "so are its backups";
  return "its backup does not have all of it yet";
}

/// Moves lost servers' shards to backups. Returns why the job cannot continue; empty if it can.
std::string take_over(JobRecord& job, const Registry& registry, const std::string& names,
                      bool& moved, Notes& notes) {
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    const pb::StoredShard& shard = job.stored().shards(number);
    if (!is_lost(job, shard.host())) continue;
    const auto successor = find_successor(job, registry, number);
    // After a restart of the coordinator, a backup may not have reported yet what it keeps.
    const auto& backups = shard.backups();
    const auto is_unheard = [&](const pb::StoredBackup& one) {
      const int backup = job.server_of(one.host());
      return backup >= 0 && !job.stored().servers(backup).lost() &&
             job.servers[static_cast<std::size_t>(backup)].reply.revision() == 0;
    };
    if (!successor && std::any_of(backups.begin(), backups.end(), is_unheard)) continue;
    if (!successor) {
      return fmt::format("{}; shard {} of the parameters is lost with it: {}",
                         names.empty() ? "its server was lost" : names, number,
                         why_lost(job, number));
    }
    move_to_backup(job, number, *successor, "is taken over by", notes);
    moved = true;
  }
  return "";
}

/// Moves the shards of leaving servers to backups that can take them.
bool move_from_leaving(JobRecord& job, const Registry& registry, Notes& notes) {
  bool moved = false;
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    if (!leaves(job, registry, job.stored().shards(number).host())) continue;
    const auto successor = find_successor(job, registry, number);
    if (!successor || leaves(job, registry, *successor)) continue;
    move_to_backup(job, number, *successor, "moves to", notes);
    moved = true;
  }
  return moved;
}

/// Gives a server that has at least two shards fewer than another one of its shards: the server
/// first becomes an additional backup, and serves the shard once it is whole. If a further server
/// can keep the images, the shard always has as many backups as it should. Returns whether anything
/// changed.
bool balance(JobRecord& job, const Registry& registry, bool& moved, Notes& notes) {
  std::map<int, std::vector<int>> shards_of;  // of each server that takes work
  for (const auto& [host, load] : loads_of(job, registry)) {
    shards_of.try_emplace(job.server_of(host));
  }
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    // One move at a time, and protection before balance.
    if (!is_all_whole(job, number)) return false;
    const auto server = shards_of.find(job.server_of(job.stored().shards(number).host()));
    if (server == shards_of.end()) return false;
    server->second.push_back(number);
  }
  const auto shards = [](const auto& entry) { return entry.second.size(); };
  const auto least = std::ranges::min_element(shards_of, {}, shards);
  const auto most = std::ranges::max_element(shards_of, {}, shards);
  if (shards_of.empty() || most->second.size() < least->second.size() + 2) {
    return remove_extra_backups(job, registry) || spread_backups(job, registry);
  }
  for (const int number : most->second) {
    const auto& backups = job.stored().shards(number).backups();
    const auto backup = std::find_if(backups.begin(), backups.end(), [&](const auto& one) {
      return job.server_of(one.host()) == least->first;
    });
    if (backup == backups.end()) continue;
    // A server keeps no images of a shard that it serves: another one must first, if possible.
    const bool has_extra = backups.size() > required_backups(job.stored());
    const auto other = has_extra ? std::nullopt : choose_backup(job, registry, number);
    if (other) {
      add_backup(job, number, *other);
      return true;
    }
    move_to_backup(job, number, backup->host(), "moves to", notes);
    return moved = true;
  }
  const int number = most->second.back();
  for (const auto& [host, load] : loads_of(job, registry)) {
    const bool fits = job.server_of(host) == least->first &&
                      !is_given_up(job, static_cast<std::uint32_t>(number), host);
    if (!fits) continue;
    add_backup(job, number, host);
    return true;
  }
  return false;
}

}  // namespace

void place_shards(JobRecord& job, const Registry& registry, const Replication& replication) {
  pb::StoredJob& stored = job.change();
  if (replication.interval == 0 || stored.servers_size() < 2) return;
  stored.set_replication_interval(replication.interval);
  stored.set_replication_copies(replication.copies);
  for (std::uint32_t host = 0; host < host_count(stored); ++host) {
    pb::StoredShard& shard = *stored.add_shards();
    shard.set_host(host);
    shard.set_term(1);
  }
  for (int number = 0; number < stored.shards_size(); ++number) give_backups(job, registry, number);
}

std::string replace_servers(JobRecord& job, const Registry& registry, TimePoint now,
                            CheckpointTasks& tasks, Notes& notes) {
  const std::string names = note_lost_servers(job, registry);
  if (job.stored().shards().empty()) {
    return names.empty() ? "" : names + "; its part of the parameters is lost";
  }
  bool moved = false;
  if (std::string lost = take_over(job, registry, names, moved, notes); !lost.empty()) return lost;
  bool changed = give_up_backups(job, now, notes);
  changed |= add_new_servers(job, registry);
  // A planned move waits for what is being prepared; a loss does not.
  const bool is_quiet = !moved && !job.stored().has_preparing() && !is_saving(job) &&
                        !is_settling(job) && job.servers_have(job.stored().revision());
  if (is_quiet) moved |= move_from_leaving(job, registry, notes);
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    changed |= give_backups(job, registry, number);
  }
  if (is_quiet && !moved && !changed) changed |= balance(job, registry, moved, notes);
  if (!names.empty()) notes.add(JobId(job.stored().job()), names);
  if (!changed && !moved) return "";
  if (moved) {
    withdraw_preparations(job, tasks);
    job.revise_workers();
  }
  job.revise();
  return "";
}

bool has_shards(const JobRecord& job, int server) {
  if (server < 0 || job.stored().servers(server).lost()) return false;
  if (job.stored().shards().empty()) return true;
  return std::ranges::any_of(job.stored().shards(), [&](const pb::StoredShard& shard) {
    return has_part_of(job, shard, server);
  });
}

std::string why_not_movable(const JobRecord& job, int server, const Registry& registry) {
  if (!has_shards(job, server)) return "";
  const std::string& name = job.stored().servers(server).name();
  if (job.stored().shards().empty()) {
    return fmt::format(
        "server \"{}\" has a part of job {}, whose shards have no backups: save and stop it with "
        "\"tautline stop {}\", and resume it on other servers",
        name, job.stored().job(), job.stored().job());
  }
  const auto others = registry.available(pb::ROLE_SERVER);
  if (std::ranges::any_of(others, [&](const Participant* one) { return one->name != name; })) {
    return "";
  }
  return fmt::format(
      "server \"{}\" has a part of job {}, which no other server can take: start one with "
      "\"tautline-server --config FILE\"",
      name, job.stored().job());
}

bool is_settling(const JobRecord& job) {
  return std::any_of(job.servers.begin(), job.servers.end(), [&](const JobRecord::Server& server) {
    return !server.lost && server.reply.settling();
  });
}

}  // namespace taut
