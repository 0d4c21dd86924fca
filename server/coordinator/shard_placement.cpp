#include "server/coordinator/shard_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "server/coordinator/epoch_change.hpp"

namespace taut {
namespace {

// Another host is chosen until then; where there is none, this one is tried again.
constexpr Duration kGivenUpPause = std::chrono::seconds(60);

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

/// The process of a host's server; nullptr: it is not here.
const Participant* process_of(const JobRecord& job, const Registry& registry, std::uint32_t host) {
  const int index = job.server_of(host);
  if (index < 0) return nullptr;
  const pb::StoredServer& server = job.stored().servers(index);
  return registry.find_live(pb::ROLE_SERVER, server.name(), Incarnation(server.incarnation()));
}

/// Whether two hosts are lost with one machine, as far as is known.
bool share_machine(const JobRecord& job, const Registry& registry, std::uint32_t one,
                   std::uint32_t other) {
  const Participant* first = process_of(job, registry, one);
  const Participant* second = process_of(job, registry, other);
  return first != nullptr && second != nullptr && !first->host.empty() &&
         first->host == second->host;
}

/// Whether another host than this one that has a shard is on its machine.
bool is_near(const JobRecord& job, const Registry& registry, const pb::StoredShard& shard,
             std::uint32_t host) {
  const auto is_other = [&](std::uint32_t other) {
    return other != host && share_machine(job, registry, other, host);
  };
  return is_other(shard.host()) ||
         std::any_of(shard.backups().begin(), shard.backups().end(),
                     [&](const pb::StoredBackup& backup) { return is_other(backup.host()); });
}

/// Whether the server of a host leaves: it takes nothing over, and what it has moves away.
bool leaves(const JobRecord& job, const Registry& registry, std::uint32_t host) {
  const Participant* process = process_of(job, registry, host);
  return process != nullptr && process->leaves;
}

std::string name_of(const JobRecord& job, std::uint32_t host) {
  const int server = job.server_of(host);
  return server < 0 ? std::string() : job.stored().servers(server).name();
}

/// How many shards each host that takes work serves or keeps the images of.
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

/// Whether a server, by its index, serves a shard or keeps its images.
bool has_part_of(const JobRecord& job, const pb::StoredShard& shard, int server) {
  if (job.server_of(shard.host()) == server) return true;
  return std::any_of(
      shard.backups().begin(), shard.backups().end(),
      [&](const pb::StoredBackup& one) { return job.server_of(one.host()) == server; });
}

/// The host on another server than those that have the shard that has the least to do, on a machine
/// that has none of it unless that would have twice as much to do; nothing: there is no other
/// server that can keep the shard's images.
std::optional<std::uint32_t> choose_backup(const JobRecord& job, const Registry& registry,
                                           int number) {
  const pb::StoredShard& shard = job.stored().shards(number);
  auto loads = loads_of(job, registry);
  std::erase_if(loads, [&](const auto& entry) {
    return has_part_of(job, shard, job.server_of(entry.first)) ||
           is_given_up(job, static_cast<std::uint32_t>(number), entry.first);
  });
  if (loads.empty()) return std::nullopt;
  // The host that follows the primary comes first among equals: backups of one server's shards
  // are spread.
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

/// Whether another server takes work, if it was given up as a backup of the shard or not.
bool could_have_backup(const JobRecord& job, const Registry& registry, int number) {
  const auto loads = loads_of(job, registry);
  return std::ranges::any_of(loads, [&](const auto& entry) {
    return !has_part_of(job, job.stored().shards(number), job.server_of(entry.first));
  });
}

void add_backup(JobRecord& job, int number, std::uint32_t host) {
  pb::StoredShard& shard = *job.change().mutable_shards(number);
  shard.set_copy(shard.copy() + 1);
  pb::StoredBackup& backup = *shard.add_backups();
  backup.set_host(host);
  backup.set_choice(shard.copy());
}

/// Removes a shard's backups for which this holds. Returns whether there were any.
template <class Predicate>
bool remove_backups(JobRecord& job, int number, Predicate goes) {
  const auto& backups = job.stored().shards(number).backups();
  if (std::none_of(backups.begin(), backups.end(), goes)) return false;
  pb::StoredShard& shard = *job.change().mutable_shards(number);
  auto& list = *shard.mutable_backups();
  list.erase(std::remove_if(list.begin(), list.end(), goes), list.end());
  shard.set_copy(shard.copy() + 1);
  return true;
}

/// How many backups a shard should have.
int wanted(const pb::StoredJob& stored) {
  return static_cast<int>(std::max(stored.replication_copies(), 1U));
}

/// Whether a shard can be taken over now.
bool is_protected(const JobRecord& job, int number) {
  const auto& backups = job.stored().shards(number).backups();
  return std::any_of(backups.begin(), backups.end(),
                     [&](const pb::StoredBackup& one) { return job.is_whole(number, one); });
}

/// Whether all backups that a shard has are whole.
bool is_all_whole(const JobRecord& job, int number) {
  const auto& backups = job.stored().shards(number).backups();
  return !backups.empty() && std::all_of(backups.begin(), backups.end(), [&](const auto& one) {
    return job.is_whole(number, one);
  });
}

/// Chooses backups for a shard that has too few. Those of servers that leave stay until the others
/// are whole, if they are whole themselves. Returns whether anything changed.
bool give_backups(JobRecord& job, const Registry& registry, int number) {
  bool changed = remove_backups(
      job, number, [&](const pb::StoredBackup& one) { return is_lost(job, one.host()); });
  const auto goes = [&](const pb::StoredBackup& one) { return leaves(job, registry, one.host()); };
  const auto staying = [&] {
    const auto& backups = job.stored().shards(number).backups();
    return static_cast<int>(std::count_if(backups.begin(), backups.end(), std::not_fn(goes)));
  };
  while (staying() < wanted(job.stored())) {
    const auto backup = choose_backup(job, registry, number);
    if (!backup) break;
    add_backup(job, number, *backup);
    changed = true;
  }
  // One that was given up is tried again later: until then the one that leaves is all there is.
  if (staying() == 0 && could_have_backup(job, registry, number)) return changed;
  // One that leaves and does not have all of it yet protects nothing: the images are for another.
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

/// The host that takes a shard over: of those that have all of it the one that has the least to do;
/// nothing: there is none.
std::optional<std::uint32_t> find_successor(const JobRecord& job, const Registry& registry,
                                            int number) {
  const auto loads = loads_of(job, registry);
  std::optional<std::pair<int, std::uint32_t>> best;
  for (const pb::StoredBackup& one : job.stored().shards(number).backups()) {
    if (!job.is_whole(number, one)) continue;
    const auto load = loads.find(one.host());
    // A server that leaves hands it over again.
    const int cost = load == loads.end() ? std::numeric_limits<int>::max() : load->second;
    if (!best || cost < best->first) best = {cost, one.host()};
  }
  return best ? std::optional(best->second) : std::nullopt;
}

/// A backup serves a shard from now on. REQUIRES: it is whole.
void move_to_backup(JobRecord& job, int number, std::uint32_t host, const char* verb,
                    Notes& notes) {
  remove_backups(job, number, [&](const pb::StoredBackup& one) { return one.host() == host; });
  pb::StoredShard& shard = *job.change().mutable_shards(number);
  shard.set_host(host);
  shard.set_term(shard.term() + 1);
  notes.add(JobId(job.stored().job()), fmt::format("shard {} {} server \"{}\", term {}", number,
                                                   verb, name_of(job, host), shard.term()));
}

/// Servers that have joined since the job started can keep images too.
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

/// Whether a checkpoint is being written, or will be soon; one that is ordered for a distant clock
/// can be withdrawn, and is ordered again.
bool is_saving(const JobRecord& job) {
  return job.stored().has_checkpoint() &&
         (job.finishes_checkpoint || job.stored().checkpoint().clock() <= first_free_clock(job));
}

/// Marks servers that are lost. Returns what has happened to them; empty: none was.
std::string note_lost_servers(JobRecord& job, const Registry& registry) {
  std::string names;
  for (int i = 0; i < job.stored().servers_size(); ++i) {
    const pb::StoredServer& server = job.stored().servers(i);
    const Incarnation incarnation(server.incarnation());
    if (server.lost() || registry.find_live(pb::ROLE_SERVER, server.name(), incarnation)) continue;
    names +=
        (names.empty() ? "" : "; ") + registry.loss_of(pb::ROLE_SERVER, server.name(), incarnation);
    pb::StoredServer& lost = *job.change().mutable_servers(i);
    lost.set_lost(true);
    lost.set_last_order(job.stored().checkpoints_ordered());
    job.servers[static_cast<std::size_t>(i)].lost = true;
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

/// Shards of lost servers go to their backups. Returns why the job cannot continue; empty: it can.
std::string take_over(JobRecord& job, const Registry& registry, const std::string& names,
                      bool& moved, Notes& notes) {
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    const pb::StoredShard& shard = job.stored().shards(number);
    if (!is_lost(job, shard.host())) continue;
    const auto successor = find_successor(job, registry, number);
    // After a restart of the coordinator: one has not said yet what it keeps.
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

/// A shard whose backup cannot be brought up to date gets another one. Returns whether one does.
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

/// Shards of servers that leave go to their backups, one server's at once.
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

/// Where shards were to move elsewhere: of a shard that has more backups than it should, one that
/// shares a machine with another one, or else the one that has the most to do, keeps no more
/// images. Returns whether anything changed.
bool remove_extra_backups(JobRecord& job, const Registry& registry) {
  bool changed = false;
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    const auto& backups = job.stored().shards(number).backups();
    if (backups.size() <= wanted(job.stored())) continue;
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

/// A backup that shares a machine with another host of its shard is replaced by one on another
/// machine, once there is one: that is added first. Returns whether one is.
bool spread_backups(JobRecord& job, const Registry& registry) {
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    const pb::StoredShard& shard = job.stored().shards(number);
    const bool is_any_near = std::any_of(shard.backups().begin(), shard.backups().end(),
                                         [&](const pb::StoredBackup& backup) {
                                           return is_near(job, registry, shard, backup.host());
                                         });
    if (!is_any_near || shard.backups_size() > wanted(job.stored())) continue;
    const auto other = choose_backup(job, registry, number);
    if (!other || is_near(job, registry, shard, *other)) continue;
    // Each attempt costs images, and there is a backup.
    const auto had = std::pair(static_cast<std::uint32_t>(number), job.server_of(*other));
    if (job.unsuited.contains(had)) continue;
    add_backup(job, number, *other);
    return true;
  }
  return false;
}

/// A server with fewer shards than another by two or more gets one of them: it is a backup first,
/// in addition to those that there are, and once it is whole it serves the shard. Where a further
/// server can keep its images, the shard has as many backups throughout as it should. Returns
/// whether anything changed.
bool balance(JobRecord& job, const Registry& registry, bool& moved, Notes& notes) {
  std::map<int, std::vector<int>> shards_of;  // of each server that takes work
  for (const auto& [host, load] : loads_of(job, registry)) {
    shards_of.try_emplace(job.server_of(host));
  }
  for (int number = 0; number < job.stored().shards_size(); ++number) {
    // One after the other, and protection before balance.
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
    // What it serves it does not keep images of: another one is to do so first, if there is any.
    const bool has_extra = backups.size() > wanted(job.stored());
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
    status.set_wanted_backups(static_cast<std::uint32_t>(wanted(job.stored())));
    if (whole >= wanted(job.stored())) continue;
    for (const JobRecord::GivenUp& one : job.given_up) {
      if (one.shard != static_cast<std::uint32_t>(number)) continue;
      status.set_problem(fmt::format("server \"{}\": {}", name_of(job, one.host), one.reason));
    }
  }
  return shards;
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

bool is_settling(const JobRecord& job) {
  return std::any_of(job.servers.begin(), job.servers.end(), [&](const JobRecord::Server& server) {
    return !server.lost && server.reply.settling();
  });
}

}  // namespace taut
