#pragma once

#include <cstddef>
#include <vector>

namespace taut::schedule {

/// Assigns each row a different column so that the sum of the costs is least: returns the column of
/// each row. costs[row][column]; REQUIRES no fewer columns than rows.
/// Source    Kuhn, "The Hungarian Method for the Assignment Problem", Naval Research Logistics 2,
///           1955, in the form with shortest augmenting paths: Jonker and Volgenant, Computing 38,
///           1987
[[nodiscard]] std::vector<std::size_t> least_cost_assignment(
    const std::vector<std::vector<double>>& costs);

}  // namespace taut::schedule
