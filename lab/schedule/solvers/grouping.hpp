#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace taut::schedule {

/// How many pairs of an item of kind `a` with one of kind `b`; a <= b.
struct Pairing {
  std::size_t a = 0;
  std::size_t b = 0;
  std::uint32_t pairs = 0;
};

/// Pairs items of several kinds so that the sum of weights is as great as possible: the matching of
/// greatest weight, by its linear program, whose halves are rounded down; the items left over are
/// paired by falling weight. So of each kind at most one item has a worse partner than in the best
/// matching. A pair whose weight is not greater than 0 is never made.
/// counts   items of each kind
/// weight   of a pair of kinds, a <= b
[[nodiscard]] std::vector<Pairing> best_pairs(
    const std::vector<std::uint32_t>& counts,
    const std::function<double(std::size_t a, std::size_t b)>& weight);

}  // namespace taut::schedule
