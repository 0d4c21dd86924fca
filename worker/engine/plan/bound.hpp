#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/plan/carries.hpp"

namespace taut::plan {

struct DualBound {
  std::uint64_t bytes = 0;     // no choice of carries moves fewer
  std::vector<double> prices;  // by step: bytes moved that one more byte of room would avoid
};

/// The Lagrangian dual of the choice: each step's room has a price, and each value is kept or
/// dropped independently. Buffers may be split, so it also bounds Belady's rule applied to single
/// bytes.
/// moved_bytes  the bytes moved by a choice that fits: the target of the step size
/// Source    Held, Karp, "The traveling-salesman problem and minimum spanning trees: Part II",
///           Mathematical Programming 1, 1971; Polyak's step size
[[nodiscard]] DualBound dual_bound(const Problem& problem, std::uint64_t moved_bytes);

/// For each carry, the price of the room needed to keep it.
[[nodiscard]] std::vector<double> keep_costs(const Problem& problem,
                                             const std::vector<double>& prices);

}  // namespace taut::plan
