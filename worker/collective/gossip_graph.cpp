#include "worker/collective/gossip_graph.hpp"

#include <algorithm>
#include <bit>
#include <set>

#include "common/check.hpp"
#include "worker/collective/algorithms.hpp"

namespace taut::collective {
namespace {

using Edges = std::set<std::uint32_t>;

Edges torus_edges(std::uint32_t rank, std::uint32_t ranks) {
  const std::uint32_t rows = torus_rows(ranks);
  const std::uint32_t columns = ranks / rows;
  const std::uint32_t row = rank / columns;
  const std::uint32_t column = rank % columns;
  return {row * columns + (column + 1) % columns, row * columns + (column + columns - 1) % columns,
          (row + 1) % rows * columns + column, (row + rows - 1) % rows * columns + column};
}

/// 1, 2, 4 ... below the number of ranks.
std::vector<std::uint32_t> powers_below(std::uint32_t ranks) {
  std::vector<std::uint32_t> powers;
  for (std::uint64_t power = 1; power < ranks; power *= 2) {
    powers.push_back(static_cast<std::uint32_t>(power));
  }
  return powers;
}

/// Ranks that a rank sends to.
Edges edges_of(Graph graph, std::uint32_t rank, std::uint32_t ranks) {
  Edges edges;
  switch (graph) {
    case Graph::kRing:
      edges = {(rank + 1) % ranks, (rank + ranks - 1) % ranks};
      break;
    case Graph::kTorus:
      edges = torus_edges(rank, ranks);
      break;
    case Graph::kHypercube:
      for (const std::uint32_t power : powers_below(ranks)) {
        if ((rank ^ power) < ranks) edges.insert(rank ^ power);
      }
      break;
    case Graph::kExponential:
      for (const std::uint32_t power : powers_below(ranks)) edges.insert((rank + power) % ranks);
      break;
  }
  edges.erase(rank);
  return edges;
}

Edges sources_of(Graph graph, std::uint32_t rank, std::uint32_t ranks) {
  if (graph != Graph::kExponential) return edges_of(graph, rank, ranks);
  Edges sources;
  for (const std::uint32_t power : powers_below(ranks)) {
    sources.insert((rank + ranks - power) % ranks);
  }
  return sources;
}

/// Ranks that a rank may average with, two at a time.
Edges pairs_of(Graph graph, std::uint32_t rank, std::uint32_t ranks) {
  if (graph != Graph::kExponential) return edges_of(graph, rank, ranks);
  Edges edges;
  for (std::uint64_t power = 2; power - 1 < ranks; power *= 2) {
    const auto distance = static_cast<std::uint32_t>(power - 1);
    edges.insert((rank + distance) % ranks);
    edges.insert((rank + ranks - distance) % ranks);
  }
  return edges;
}

}  // namespace

bool is_active(Graph graph, Rank rank, std::uint32_t ranks) {
  switch (graph) {
    case Graph::kRing:
    case Graph::kExponential:
      return rank.value() % 2 == 0;
    case Graph::kTorus: {
      const std::uint32_t columns = ranks / torus_rows(ranks);
      return (rank.value() / columns + rank.value() % columns) % 2 == 0;
    }
    case Graph::kHypercube:
      return std::popcount(rank.value()) % 2 == 0;
  }
  TAUT_CHECK(false, "a graph that has no colours");
}

std::vector<Rank> partners_of(Graph graph, Rank rank, std::uint32_t ranks) {
  std::vector<Rank> partners;
  const bool is_first = is_active(graph, rank, ranks);
  for (const std::uint32_t other : pairs_of(graph, rank.value(), ranks)) {
    if (is_active(graph, Rank(other), ranks) != is_first) partners.emplace_back(other);
  }
  return partners;
}

std::string_view to_string(Graph graph) {
  switch (graph) {
    case Graph::kRing:
      return "RING";
    case Graph::kTorus:
      return "TORUS";
    case Graph::kHypercube:
      return "HYPERCUBE";
    case Graph::kExponential:
      return "EXPONENTIAL";
  }
  TAUT_CHECK(false, "a graph that has no name");
}

std::uint32_t torus_rows(std::uint32_t ranks) {
  std::uint32_t rows = 1;
  for (std::uint32_t divisor = 2; divisor <= ranks / divisor; ++divisor) {
    if (ranks % divisor == 0) rows = divisor;
  }
  return rows;
}

Neighbours neighbours_of(Graph graph, Rank rank, std::uint32_t ranks) {
  TAUT_CHECK(rank.value() < ranks, "a rank outside of its group");
  Neighbours neighbours;
  const Edges edges = edges_of(graph, rank.value(), ranks);
  for (const std::uint32_t to : edges) neighbours.to.emplace_back(to);
  for (const std::uint32_t from : sources_of(graph, rank.value(), ranks)) {
    const std::size_t degree = std::max(edges.size(), edges_of(graph, from, ranks).size());
    neighbours.from.push_back({Rank(from), 1.0F / static_cast<float>(1 + degree)});
  }
  return neighbours;
}

Schedule exchange_schedule(const Neighbours& neighbours, std::uint64_t count) {
  Schedule schedule;
  const Range whole{0, count};
  for (const Rank to : neighbours.to) add_send(schedule, Phase::kFinal, to.value(), whole);
  for (const auto& source : neighbours.from) {
    const std::size_t before = schedule.size();
    add_receive(schedule, Phase::kFinal, source.rank.value(), whole);
    const auto index = static_cast<std::uint64_t>(&source - neighbours.from.data());
    if (schedule.size() > before) schedule.back().shift = (index + 1) * count;
  }
  return schedule;
}

Cost exchange_cost(const Neighbours& neighbours, std::uint64_t count, std::uint64_t chunk) {
  const std::uint64_t receivers = neighbours.to.size();
  Cost cost;
  cost.messages = receivers * chunks_of(count, chunk);
  cost.bytes = receivers * count * sizeof(float);
  cost.steps = cost.messages > 0 ? 1 : 0;
  return cost;
}

}  // namespace taut::collective
