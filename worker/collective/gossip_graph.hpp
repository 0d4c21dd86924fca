#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "worker/collective/schedule.hpp"

namespace taut::collective {

/// Which ranks average their values with which, at each clock. Every graph is defined for any
/// number of ranks, since ranks are lost: a torus of a prime number is a ring, and of a hypercube
/// are left the edges between ranks that exist.
///
/// Source    Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NIPS
///           2017 (ring); Ying et al., "Exponential Graph is Provably Efficient for Decentralized
///           Deep Training", NeurIPS 2021 (the others' spectral gaps)
enum class Graph : std::uint8_t { kRing, kTorus, kHypercube, kExponential };

[[nodiscard]] std::string_view to_string(Graph graph);

/// One rank's row of the mixing matrix W, by which x_i becomes x_i + sum over j of
/// W_ij (x_j - x_i).
///
/// W is doubly stochastic, so that the mean of all x stays what it is, and each graph is connected,
/// so that the x approach it. But for kExponential, whose edges are directed, W is symmetric:
/// W_ij = 1 / (1 + max(degree of i, degree of j)) (Metropolis and Hastings), which where all ranks
/// have the same degree is the same for all edges and the rank itself. kExponential has
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

/// For averages of two at a time, ranks have two colours: active ones begin, with passive ones. Of
/// the graph remain the edges between colours, which still connect all ranks; kExponential has
/// distances 1, 3, 7 ... in both directions for it. Each active rank of two or more has a partner.
/// Source    Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML
///           2018
[[nodiscard]] bool is_active(Graph graph, Rank rank, std::uint32_t ranks);
/// Ranks of the other colour that a rank has an edge to.
[[nodiscard]] std::vector<Rank> partners_of(Graph graph, Rank rank, std::uint32_t ranks);

/// Rows of the torus of so many ranks: the largest divisor that is not above the square root. A row
/// has consecutive ranks.
[[nodiscard]] std::uint32_t torus_rows(std::uint32_t ranks);

/// What one rank sends and receives of so many elements: values of `from[k]` are placed (k + 1)
/// times as many elements after their own place.
[[nodiscard]] Schedule exchange_schedule(const Neighbours& neighbours, std::uint64_t count);

/// What exchange_schedule() takes, by its formula: as many times the values as ranks receive them.
[[nodiscard]] Cost exchange_cost(const Neighbours& neighbours, std::uint64_t count,
                                 std::uint64_t chunk);

}  // namespace taut::collective
