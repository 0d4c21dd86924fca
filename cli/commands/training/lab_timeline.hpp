#pragma once

#include <string>
#include <vector>

#include "lab/training/records/virtual_timeline.hpp"

namespace taut::cli {

/// A timeline's drawing: a line for each of the first workers, for the servers, and for the busiest
/// links in it.
[[nodiscard]] std::vector<std::string> timeline_lines(const lab::VirtualTimeline& timeline);

}  // namespace taut::cli
