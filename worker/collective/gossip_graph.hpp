#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "worker/collective/schedule.hpp"

namespace taut::collective {

/// Which ranks average their values with which, at each clock. Every graph is defined for any
/// number of ranks, since ranks may be lost: a torus of a prime number of ranks is a ring, and a
/// hypercube has only the edges between ranks that exist.
///
/// Source    Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NIPS
///           2017 (ring); Ying et al., "Exponential Graph is Provably Efficient for Decentralized
///           Deep Training", NeurIPS 2021 (the others' spectral gaps)
enum class Graph : std::uint8_t { kRing, kTorus, kHypercube, kExponential };

[[nodiscard]] std::string_view to_string(Graph graph);

/// One rank's row of the mixing matrix W, by which x_i becomes x_i + sum over j of
/// W_ij (x_j - x_i).
///
/// W is doubly stochastic, so that the mean of all x does not change, and each graph is connected,
/// so that the x approach it. Except for kExponential, whose edges are directed, W is symmetric:
/// W_ij = 1 / (1 + max(degree of i, degree of j)) (Metropolis and Hastings); if all ranks have the
/// same degree, all edges and the rank itself have the same weight. kExponential has
/// W_ij = 1 / (1 + degree).
struct Neighbours {
  struct Source {
    Rank rank;
    float weight = 0;
  };
  std::vector<Source> from;  // whose values this rank receives, by rank
  std::vector<Rank> to;      // that receive this rank's, by rank
};

/// REQUIRES: rank is less than ranks.
[[nodiscard]] Neighbours neighbours_of(Graph graph, Rank rank, std::uint32_t ranks);

/// For averages of two at a time, ranks have two colours: active ranks begin, with passive ones.
/// Only edges between colours are used, which still connect all ranks; kExponential then has
/// distances 1, 3, 7 ... in both directions. With two ranks or more, each active one has a partner.
/// Source    Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML
///           2018
[[nodiscard]] bool is_active(Graph graph, Rank rank, std::uint32_t ranks);
/// Ranks of the other colour that a rank has an edge to.
[[nodiscard]] std::vector<Rank> partners_of(Graph graph, Rank rank, std::uint32_t ranks);

/// Rows of the torus of `ranks` ranks: the largest divisor up to the square root. A row has
/// consecutive ranks.
[[nodiscard]] std::uint32_t torus_rows(std::uint32_t ranks);

/// What one rank sends and receives of `count` elements: values of `from[k]` are placed
/// (k + 1) * count elements after their own place.
[[nodiscard]] Schedule exchange_schedule(const Neighbours& neighbours, std::uint64_t count);

/// The cost of exchange_schedule(), by its formula: the values once for each rank that gets them.
[[nodiscard]] Cost exchange_cost(const Neighbours& neighbours, std::uint64_t count,
                                 std::uint64_t chunk);

}  // namespace taut::collective
