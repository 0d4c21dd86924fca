#include "server/coordinator/queue/worker_pool.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "common/check.hpp"

namespace taut {

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

/// No more of those that share memory than it suffices for.
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

std::vector<std::size_t> FreeWorkers::take(const PlaceDemand& demand, std::uint32_t count) {
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
    for (const std::size_t i : choose_workers(hosts, count)) places.push_back(from[i]);
  }
  remove(places, demand, count);
  return places;
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

void FreeWorkers::release_one(std::size_t place, const PlaceDemand& demand) {
  is_free_[place] = true;
  ++count_;
  std::uint64_t& memory = memory_[list_->workers[place].memory];
  if (memory != WorkerList::kUnlimited) memory += demand.memory;
}

std::vector<std::size_t> FreeWorkers::release(JobId job, const PlaceDemand& demand,
                                              std::uint32_t count, const PlaceDemand& wanted) {
  std::vector<std::size_t> places;
  if (list_->workers.empty()) {
    count_ += count;
    return places;
  }
  for (std::size_t i = list_->workers.size(); i-- > 0 && places.size() < count;) {
    const WorkerPlace& worker = list_->workers[i];
    if (worker.job != job || worker.leaves || is_free_[i]) continue;
    if (worker.devices < wanted.devices) continue;
    release_one(i, demand);
    places.push_back(i);
  }
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

std::vector<std::size_t> choose_workers(const std::vector<std::string>& hosts, std::size_t count) {
  TAUT_CHECK(count <= hosts.size(), "more workers than are idle");
  std::map<std::string, std::vector<std::size_t>> of_host;
  for (std::size_t i = 0; i < hosts.size(); ++i) of_host[hosts[i]].push_back(i);
  std::vector<std::size_t> chosen;
  while (chosen.size() < count) {
    const std::size_t missing = count - chosen.size();
    // The smallest host that has enough, or else the largest one.
    auto best = of_host.begin();
    for (auto host = of_host.begin(); host != of_host.end(); ++host) {
      const std::size_t size = host->second.size();
      const std::size_t best_size = best->second.size();
      const bool is_better =
          best_size >= missing ? size >= missing && size < best_size : size > best_size;
      if (is_better) best = host;
    }
    const std::size_t taken = std::min(missing, best->second.size());
    chosen.insert(chosen.end(), best->second.begin(),
                  best->second.begin() + static_cast<std::ptrdiff_t>(taken));
    of_host.erase(best);
  }
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace taut
