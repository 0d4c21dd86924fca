#include "server/coordinator/queue/worker_pool.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "common/check.hpp"

namespace taut {
namespace {

/// The workers of one host, by their positions.
struct HostGroup {
  std::string_view host;
  std::vector<std::size_t> positions;
};

/// Groups positions by host, in the order in which hosts appear.
std::vector<HostGroup> by_host(const std::vector<std::string>& hosts) {
  std::vector<HostGroup> groups;
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto [found, is_new] = index.try_emplace(hosts[i], groups.size());
    if (is_new) groups.push_back({hosts[i], {}});
    groups[found->second].positions.push_back(i);
  }
  return groups;
}

/// Keeps only the groups of one rack if no host has `count` workers and some rack does: the
/// smallest such rack.
void keep_one_rack(std::vector<HostGroup>& groups, std::size_t count) {
  std::vector<std::pair<std::string_view, std::size_t>> racks;
  for (const HostGroup& group : groups) {
    if (group.positions.size() >= count) return;
    const std::string_view name = rack_of(group.host);
    auto rack = std::ranges::find(racks, name, &std::pair<std::string_view, std::size_t>::first);
    if (rack == racks.end()) rack = racks.insert(rack, {name, 0});
    rack->second += group.positions.size();
  }
  std::erase_if(racks, [count](const auto& rack) { return rack.second < count; });
  if (racks.empty()) return;
  const std::string_view best =
      std::ranges::min_element(racks, {}, [](const auto& rack) { return rack.second; })->first;
  std::erase_if(groups, [best](const HostGroup& group) { return rack_of(group.host) != best; });
}

}  // namespace

FreeWorkers::FreeWorkers(const WorkerList& list, std::uint32_t count)
    : list_(&list), memory_(list.memory), count_(count) {
  if (list.workers.empty()) return;
  count_ = 0;
  is_free_.reserve(list.workers.size());
  for (const WorkerPlace& worker : list.workers) {
    is_free_.push_back(worker.job == JobId());
    if (is_free_.back()) ++count_;
  }
}

/// Free workers that meet the demand, no more than their shared memory suffices for.
std::vector<std::size_t> FreeWorkers::candidates(const PlaceDemand& demand,
                                                 std::uint32_t max_devices) const {
  std::vector<std::uint64_t> memory = memory_;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < list_->workers.size(); ++i) {
    const WorkerPlace& worker = list_->workers[i];
    if (!is_free_[i] || worker.devices < demand.devices || worker.devices > max_devices) continue;
    if (memory[worker.memory] < demand.memory) continue;
    if (memory[worker.memory] != WorkerList::kUnlimited) memory[worker.memory] -= demand.memory;
    chosen.push_back(i);
  }
  return chosen;
}

std::uint32_t FreeWorkers::fitting(const PlaceDemand& demand) const {
  if (list_->workers.empty() || demand.none()) return count_;
  return static_cast<std::uint32_t>(
      candidates(demand, std::numeric_limits<std::uint32_t>::max()).size());
}

std::vector<std::size_t> FreeWorkers::take(const PlaceDemand& demand, std::uint32_t count,
                                           JobId near) {
  std::vector<std::size_t> places;
  if (!list_->workers.empty()) {
    std::set<std::uint32_t> levels;
    for (const WorkerPlace& worker : list_->workers) levels.insert(worker.devices);
    std::vector<std::size_t> from;
    for (const std::uint32_t level : levels) {
      from = candidates(demand, level);
      if (from.size() >= count) break;
    }
    std::vector<std::string> hosts;
    hosts.reserve(from.size());
    for (const std::size_t i : from) hosts.push_back(list_->workers[i].host);
    const std::vector<std::string> own = hosts_of(near);
    std::vector<std::size_t> chosen =
        own.empty() ? choose_workers(hosts, count) : nearest_first(hosts, own);
    chosen.resize(count);
    std::ranges::sort(chosen);
    for (const std::size_t i : chosen) places.push_back(from[i]);
  }
  remove(places, demand, count);
  return places;
}

std::vector<std::string> FreeWorkers::hosts_of(JobId job) const {
  std::vector<std::string> hosts;
  for (const WorkerPlace& worker : list_->workers) {
    if (job != JobId() && worker.job == job && !worker.leaves) hosts.push_back(worker.host);
  }
  return hosts;
}

void FreeWorkers::remove(const std::vector<std::size_t>& places, const PlaceDemand& demand,
                         std::uint32_t count) {
  TAUT_CHECK(count <= count_, "more workers than are free");
  count_ -= count;
  for (const std::size_t place : places) {
    is_free_[place] = false;
    std::uint64_t& memory = memory_[list_->workers[place].memory];
    if (memory != WorkerList::kUnlimited) memory -= std::min(memory, demand.memory);
  }
}

void FreeWorkers::put_back(const std::vector<std::size_t>& places, const PlaceDemand& demand) {
  for (const std::size_t place : places) release_one(place, demand);
}

void FreeWorkers::release_one(std::size_t place, const PlaceDemand& demand) {
  is_free_[place] = true;
  ++count_;
  std::uint64_t& memory = memory_[list_->workers[place].memory];
  if (memory != WorkerList::kUnlimited) memory += demand.memory;
}

std::vector<std::size_t> FreeWorkers::release(JobId job, const PlaceDemand& demand,
                                              std::uint32_t count,
                                              const PlaceDemand& fitting_demand) {
  std::vector<std::size_t> places;
  if (list_->workers.empty()) {
    count_ += count;
    return places;
  }
  for (const std::size_t i : farthest_first(job)) {
    if (places.size() == count) break;
    if (list_->workers[i].devices < fitting_demand.devices) continue;
    release_one(i, demand);
    places.push_back(i);
  }
  return places;
}

/// A job's workers that stay, the most dispensable first.
std::vector<std::size_t> FreeWorkers::farthest_first(JobId job) const {
  std::vector<std::size_t> places;
  std::map<std::string_view, std::size_t> of_rack;
  std::map<std::string_view, std::pair<std::size_t, std::size_t>> of_host;  // number, last position
  for (std::size_t i = 0; i < list_->workers.size(); ++i) {
    const WorkerPlace& worker = list_->workers[i];
    if (worker.job != job || worker.leaves || is_free_[i]) continue;
    places.push_back(i);
    ++of_rack[rack_of(worker.host)];
    auto& [number, last] = of_host[worker.host];
    ++number;
    last = i;
  }
  // If nothing else decides, the last ones come first; a host is emptied before the next one.
  std::ranges::sort(places, std::ranges::less(), [&](std::size_t i) {
    const std::string& host = list_->workers[i].host;
    const auto& [number, last] = of_host.at(host);
    const std::size_t size = list_->workers.size();
    return std::tuple(of_rack.at(rack_of(host)), number, size - last, size - i);
  });
  return places;
}

void FreeWorkers::release_all(JobId job, const PlaceDemand& demand, std::uint32_t count) {
  release(job, demand, count, {});
}

void FreeWorkers::release_leaving(JobId job, const PlaceDemand& demand) {
  for (std::size_t i = 0; i < list_->workers.size(); ++i) {
    const WorkerPlace& worker = list_->workers[i];
    if (worker.job == job && worker.leaves && !is_free_[i]) release_one(i, demand);
  }
}

std::string_view rack_of(std::string_view host) {
  const std::size_t end = host.rfind('/');
  return end == std::string_view::npos ? std::string_view() : host.substr(0, end);
}

std::vector<std::size_t> choose_workers(const std::vector<std::string>& hosts, std::size_t count) {
  TAUT_CHECK(count <= hosts.size(), "more workers than are idle");
  std::vector<HostGroup> groups = by_host(hosts);
  keep_one_rack(groups, count);
  std::vector<std::size_t> chosen;
  while (chosen.size() < count) {
    const std::size_t missing = count - chosen.size();
    // The smallest host that has enough, or else the largest one.
    auto best = groups.begin();
    for (auto group = groups.begin(); group != groups.end(); ++group) {
      const std::size_t size = group->positions.size();
      const std::size_t best_size = best->positions.size();
      const bool is_better =
          best_size >= missing ? size >= missing && size < best_size : size > best_size;
      if (is_better) best = group;
    }
    const std::size_t taken = std::min(missing, best->positions.size());
    chosen.insert(chosen.end(), best->positions.begin(),
                  best->positions.begin() + static_cast<std::ptrdiff_t>(taken));
    groups.erase(best);
  }
  std::ranges::sort(chosen);
  return chosen;
}

std::vector<std::size_t> nearest_first(const std::vector<std::string>& hosts,
                                       const std::vector<std::string>& near) {
  std::vector<std::size_t> order(hosts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (near.empty()) return order;
  const std::set<std::string_view> own(near.begin(), near.end());
  std::set<std::string_view> racks;
  for (const std::string_view host : own) racks.insert(rack_of(host));
  std::vector<HostGroup> groups = by_host(hosts);
  std::ranges::stable_sort(groups, std::ranges::less(), [&](const HostGroup& group) {
    const int beyond_host = own.contains(group.host) ? 0 : 1;
    const int beyond_rack = racks.contains(rack_of(group.host)) ? 0 : 1;
    return std::tuple(beyond_host, beyond_rack, hosts.size() - group.positions.size());
  });
  order.clear();
  for (const HostGroup& group : groups) {
    order.insert(order.end(), group.positions.begin(), group.positions.end());
  }
  return order;
}

}  // namespace taut
