#pragma once

#include <cstdint>
#include <vector>

#include "tests/unit/layers/layer_bench.hpp"

namespace taut::test {

/// A seed that differs from run to run.
[[nodiscard]] std::uint64_t random_seed();

/// Draws bottoms, parameters and top gradients again from `seed`.
/// classes  the last bottom gets whole numbers below it; 0: random ones as the others
/// labels_from_end  which bottom gets them, if not the last
void fill_randomly(LayerBench& bench, std::uint64_t seed, int classes,
                   std::size_t labels_from_end = 1);

/// All that a layer has written: tops, and with gradients those of bottoms and parameters.
[[nodiscard]] std::vector<Values> results_of(const LayerBench& bench, bool gradients);

/// The largest difference of two arrays, over the largest number of the second; infinite where one
/// is no number, or where their sizes differ.
[[nodiscard]] double relative_error(const Values& actual, const Values& expected);

}  // namespace taut::test
