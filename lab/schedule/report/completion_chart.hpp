#pragma once

#include <span>
#include <string>
#include <vector>

#include "lab/schedule/view.hpp"

namespace taut::schedule {

/// A policy's completion times, ascending.
struct CompletionCurve {
  std::string policy;
  std::vector<double> took_s;
};

[[nodiscard]] CompletionCurve completion_curve(const std::string& policy, std::span<const Job> jobs,
                                               std::span<const JobState> states);

/// A complete SVG file: the share of the jobs that took no longer than a time, over the time in
/// powers of ten, a line for each policy. Lines differ by color, dashes and order in the legend.
/// Source    of the colors: Wong, "Points of view: Color blindness", Nature Methods 8, 2011
[[nodiscard]] std::string completion_svg(const std::vector<CompletionCurve>& curves);

}  // namespace taut::schedule
