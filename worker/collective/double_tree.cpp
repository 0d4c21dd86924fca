#include <array>
#include <bit>

#include "worker/collective/algorithms.hpp"

namespace taut::collective {
namespace {

/// One of the two trees. Its nodes are numbered from 1 in their order from left to right: a node's
/// height is the number of its last zero bits, so that the leaves are the odd ones. In the second
/// tree the ranks have other numbers: if n is even in the opposite order, and if it is odd one
/// lower, with the first of them last. So a rank that is odd in one tree is even in the other; if n
/// is odd there is one exception, a leaf in both.
class Tree {
 public:
  Tree(std::uint32_t ranks, std::uint32_t which) : n_(ranks), is_second_(which == 1) {}

  [[nodiscard]] std::uint32_t node_of(std::uint32_t rank) const {
    if (!is_second_) return rank + 1;
    if (n_ % 2 == 0) return n_ - rank;
    return rank == 0 ? n_ : rank;
  }
  [[nodiscard]] std::uint32_t rank_of(std::uint32_t node) const {
    if (!is_second_) return node - 1;
    if (n_ % 2 == 0) return n_ - node;
    return node == n_ ? 0 : node;
  }

  [[nodiscard]] bool is_root(std::uint32_t node) const { return node == std::bit_floor(n_); }

  /// REQUIRES: it is not the root.
  [[nodiscard]] std::uint32_t parent(std::uint32_t node) const {
    const std::uint32_t low = lowest_bit(node);
    const std::uint32_t usual = (node ^ low) | (low << 1U);
    return usual <= n_ ? usual : node ^ low;
  }

  /// 0 if there is none.
  [[nodiscard]] std::array<std::uint32_t, 2> children(std::uint32_t node) const {
    std::uint32_t half = lowest_bit(node) / 2;
    if (half == 0) return {0, 0};
    const std::uint32_t left = node - half;
    while (half > 0 && node + half > n_) half /= 2;
    return {left, half == 0 ? 0 : node + half};
  }

 private:
  static std::uint32_t lowest_bit(std::uint32_t node) { return node & (~node + 1); }

  std::uint32_t n_;
  bool is_second_;
};

}  // namespace

Schedule double_tree_schedule(const RankPlace& place, std::uint64_t count) {
  Schedule schedule;
  if (place.ranks() < 2) return schedule;
  for (std::uint32_t which = 0; which < 2; ++which) {
    const Tree tree(place.ranks(), which);
    const Range half = part_of({0, count}, 2, which);
    const std::uint32_t node = tree.node_of(place.rank.value());
    const auto children = tree.children(node);
    for (const std::uint32_t child : children) {
      if (child != 0) add_receive(schedule, Phase::kPartial, tree.rank_of(child), half);
    }
    if (!tree.is_root(node)) {
      const std::uint32_t parent = tree.rank_of(tree.parent(node));
      add_send(schedule, Phase::kPartial, parent, half);
      add_receive(schedule, Phase::kFinal, parent, half);
    }
    for (const std::uint32_t child : children) {
      if (child != 0) add_send(schedule, Phase::kFinal, tree.rank_of(child), half);
    }
  }
  return schedule;
}

Cost double_tree_cost(const RankPlace& place, std::uint64_t count, std::uint64_t chunk) {
  const std::uint32_t n = place.ranks();
  if (n < 2) return {};
  Cost cost;
  cost.steps = 2 * static_cast<std::uint64_t>(std::bit_width(n) - 1);
  for (std::uint32_t which = 0; which < 2; ++which) {
    const std::uint32_t node = Tree(n, which).node_of(place.rank.value());
    const bool is_leaf = node % 2 == 1;
    // An inner node has a left child, and a right one if any node is to its right.
    const std::uint64_t children = is_leaf ? 0 : (node < n ? 2 : 1);
    const std::uint64_t sends = children + (node == std::bit_floor(n) ? 0 : 1);
    const std::uint64_t elements = part_of({0, count}, 2, which).size();
    cost.messages += sends * chunks_of(elements, chunk);
    cost.bytes += sends * elements * sizeof(float);
  }
  return cost;
}

}  // namespace taut::collective
