#pragma once

#include <cstdint>
#include <string_view>

#include "worker/collective/schedule.hpp"

namespace taut::collective {

/// Each algorithm adds an element's values in one order, which depends on the group alone, and
/// computes its sum at one rank: every rank ends with the same bits, and so does a repeated run.
/// Different algorithms add in different orders.
///
/// Over all ranks, each algorithm sends 2(n-1) S bytes, for S bytes of values and n ranks: every
/// rank but one must pass each element on, and must receive its sum. So does the naive scheme, in
/// which one rank receives all and sends all; there this rank alone receives (n-1) S and sends
/// (n-1) S. The advantage of the ring is that no rank sends more than 2(n-1)/n S.
enum class Algorithm : std::uint8_t {
  /// Each of n parts goes around the ring twice: it is summed from rank to rank, then passed on.
  /// A rank sends 2(n-1) messages, 2(n-1)/n S bytes, in 2(n-1) steps: the fewest bytes, the most
  /// steps.
  /// Source    Patarasuk, Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of
  ///           Workstations", JPDC 69(2), 2009
  kRing,
  /// Recursive halving, then recursive doubling: of p ranks those at distance p/2 exchange halves,
  /// then those at p/4 quarters, and so on, until each has the sum of one part; the same back. With
  /// p = 2^k the largest power of two that is at most n, the first 2(n-p) ranks first form pairs of
  /// which one sends all its values to the other, and receives all sums at the end. A rank of the p
  /// sends 2k messages, 2(p-1)/p S bytes; one with a pair one message and S bytes more; one outside
  /// the p one message, S bytes. 2k steps, with pairs 2k + 2.
  /// Source    Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
  ///           MPICH", IJHPCA 19(1), 2005, section 4.5
  kHalving,
  /// Two binary trees over all ranks, each for one half of the values: sums go up to the root, and
  /// down again. A rank is a leaf in at least one of them. With c children in a tree it sends there
  /// c + 1 messages of S/2 bytes, the root c: at most 2 S in both, for any number of ranks. 2
  /// floor(log2 n) steps, with many messages under way at once.
  /// Source    Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction
  ///           and scan", Parallel Computing 35(12), 2009
  kDoubleTree,
  /// Between ranks of one host directly, between hosts in rings: with m ranks on the host that has
  /// fewest, the first m of each host own a part each. Ranks send each owner on their host its
  /// part, the owners of a part sum it in a ring over the H hosts and send it to the ranks of their
  /// host. An owner of a part of s bytes, on a host of g ranks, sends S - s + (g-1) s bytes within
  /// the host in m - 1 + g - 1 messages, and 2(H-1)/H s to another in 2(H-1); a rank without a part
  /// S bytes in m messages. 2(H-1) steps, and 2 more if hosts have several ranks.
  /// Source    Cho et al., "BlueConnect: Decomposing All-Reduce for Deep Learning on Heterogeneous
  ///           Network Hierarchy", MLSys 2019; this is its case of two levels
  kHierarchical,
};

/// "RING", ...
[[nodiscard]] std::string_view to_string(Algorithm algorithm);

/// A rank's schedule to sum `count` elements over its group.
[[nodiscard]] Schedule make_schedule(Algorithm algorithm, const RankPlace& place,
                                     std::uint64_t count);

/// The schedule's cost by the formulas above, exact even if parts differ in size and messages have
/// at most `chunk` elements each.
/// REQUIRES: for the steps, at least as many elements as ranks: empty parts may save steps.
[[nodiscard]] Cost cost_of(Algorithm algorithm, const RankPlace& place, std::uint64_t count,
                           std::uint64_t chunk);

// Of each algorithm; ring.cpp, halving.cpp, double_tree.cpp, hierarchical.cpp.
[[nodiscard]] Schedule ring_schedule(const RankPlace& place, std::uint64_t count);
[[nodiscard]] Cost ring_cost(const RankPlace& place, std::uint64_t count, std::uint64_t chunk);
[[nodiscard]] Schedule halving_schedule(const RankPlace& place, std::uint64_t count);
[[nodiscard]] Cost halving_cost(const RankPlace& place, std::uint64_t count, std::uint64_t chunk);
[[nodiscard]] Schedule double_tree_schedule(const RankPlace& place, std::uint64_t count);
[[nodiscard]] Cost double_tree_cost(const RankPlace& place, std::uint64_t count,
                                    std::uint64_t chunk);
[[nodiscard]] Schedule hierarchical_schedule(const RankPlace& place, std::uint64_t count);
[[nodiscard]] Cost hierarchical_cost(const RankPlace& place, std::uint64_t count,
                                     std::uint64_t chunk);

/// Adds a transfer, unless it has no elements.
void add_send(Schedule& schedule, Phase phase, std::uint32_t to, Range range);
void add_receive(Schedule& schedule, Phase phase, std::uint32_t from, Range range);

/// Adds a rank's part in the sum of `range` over `ring`, in which it is number `place`.
void add_ring(Schedule& schedule, const std::vector<std::uint32_t>& ring, std::uint64_t place,
              Range range);

/// The cost of add_ring(): in each phase a rank sends all parts but one; 2(n-1) messages if no part
/// has more than `chunk` elements.
[[nodiscard]] Cost cost_of_ring(std::uint64_t ranks, std::uint64_t place, Range range,
                                std::uint64_t chunk);

}  // namespace taut::collective
