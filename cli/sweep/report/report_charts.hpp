#pragma once

#include <string>
#include <vector>

#include "cli/sweep/comparison.hpp"

namespace taut::cli {

/// The legend and the charts of one group of points, as HTML.
[[nodiscard]] std::string report_charts(const std::vector<PointFigures>& points,
                                        const SweepTarget& target);

}  // namespace taut::cli
