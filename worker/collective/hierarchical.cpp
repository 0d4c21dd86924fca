#include <algorithm>
#include <map>

#include "worker/collective/algorithms.hpp"

namespace taut::collective {
namespace {

/// The ranks by host, hosts in the order of their first ranks.
struct Hosts {
  explicit Hosts(const RankPlace& place) {
    std::map<std::uint32_t, std::size_t> seen;
    for (std::uint32_t rank = 0; rank < place.ranks(); ++rank) {
      const auto [at, is_new] = seen.emplace(place.host_of[rank], ranks.size());
      if (is_new) ranks.emplace_back();
      if (rank == place.rank.value()) {
        host = at->second;
        index = ranks[host].size();
      }
      ranks[at->second].push_back(rank);
    }
    owners =
        std::ranges::min_element(ranks, {}, [](const auto& one) { return one.size(); })->size();
  }

  [[nodiscard]] bool has_several(std::size_t which) const { return ranks[which].size() > 1; }

  std::vector<std::vector<std::uint32_t>> ranks;
  std::size_t host = 0;    // of this rank
  std::size_t index = 0;   // of this rank on its host
  std::size_t owners = 0;  // on each host: its first ranks, which own a part
};

}  // namespace

Schedule hierarchical_schedule(const RankPlace& place, std::uint64_t count) {
  const Hosts hosts(place);
  const auto& local = hosts.ranks[hosts.host];
  const auto part = [&](std::size_t owner) { return part_of({0, count}, hosts.owners, owner); };
  const bool is_owner = hosts.index < hosts.owners;
  Schedule schedule;
  for (std::size_t owner = 0; owner < hosts.owners; ++owner) {
    if (owner != hosts.index) add_send(schedule, Phase::kPartial, local[owner], part(owner));
  }
  if (is_owner) {
    const Range own = part(hosts.index);
    for (const std::uint32_t other : local) {
      if (other != place.rank.value()) add_receive(schedule, Phase::kPartial, other, own);
    }
    std::vector<std::uint32_t> ring;
    for (const auto& ranks : hosts.ranks) ring.push_back(ranks[hosts.index]);
    add_ring(schedule, ring, hosts.host, own);
    for (const std::uint32_t other : local) {
      if (other != place.rank.value()) add_send(schedule, Phase::kFinal, other, own);
    }
  }
  for (std::size_t owner = 0; owner < hosts.owners; ++owner) {
    if (owner != hosts.index) add_receive(schedule, Phase::kFinal, local[owner], part(owner));
  }
  return schedule;
}

Cost hierarchical_cost(const RankPlace& place, std::uint64_t count, std::uint64_t chunk) {
  const Hosts hosts(place);
  const std::size_t rings = hosts.ranks.size();
  Cost cost;
  if (hosts.index < hosts.owners) {
    const Range own = part_of({0, count}, hosts.owners, hosts.index);
    cost = cost_of_ring(rings, hosts.host, own, chunk);
    const std::uint64_t others = hosts.ranks[hosts.host].size() - 1;
    cost.messages += others * chunks_of(own.size(), chunk);
    cost.bytes += others * own.size() * sizeof(float);
  }
  for (std::size_t owner = 0; owner < hosts.owners; ++owner) {
    if (owner == hosts.index) continue;
    const std::uint64_t elements = part_of({0, count}, hosts.owners, owner).size();
    cost.messages += chunks_of(elements, chunk);
    cost.bytes += elements * sizeof(float);
  }
  // A part of a ring starts at one host, and is complete last at the one two before it: each of the
  // two adds a step if it has several ranks.
  cost.steps = 0;
  for (std::size_t first = 0; first < rings; ++first) {
    const std::size_t last = (first + 2 * rings - 2) % rings;
    const std::uint64_t within =
        (hosts.has_several(first) ? 1U : 0U) + (hosts.has_several(last) ? 1U : 0U);
    cost.steps = std::max<std::uint64_t>(cost.steps, 2 * (rings - 1) + within);
  }
  return cost;
}

}  // namespace taut::collective
