#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/plan/carries.hpp"

namespace taut::plan {

struct DualBound {
  std::uint64_t bytes = 0;     // no choice of carries moves fewer
  std::vector<double> prices;  // by step: bytes moved that one more byte of room would save
};

/// The Lagrangian dual of the choice: each step's room has a price, and each value is kept or
/// dropped by itself. Buffers may be split, so it also bounds what Belady's rule does with single
/// bytes.
/// moved_bytes  of a choice that fits: the aim of the step size
/// Source    Held, Karp, "The traveling-salesman problem and minimum spanning trees: Part II",
///           Mathematical Programming 1, 1971; Polyak's step size
[[nodiscard]] DualBound dual_bound(const Problem& problem, std::uint64_t moved_bytes);

/// By carry: the price of the room that keeping it takes.
[[nodiscard]] std::vector<double> keep_costs(const Problem& problem,
                                             const std::vector<double>& prices);

}  // namespace taut::plan
