#pragma once

#include <string>
#include <vector>

#include "cli/playback/played_run.hpp"
#include "cli/playback/run_figures.hpp"

namespace taut::cli {

/// The page that replays a run, as one file that loads nothing: the lab's player of the dashboard's
/// page (server/dashboard/page/lab.html), with the run and its figures embedded.
[[nodiscard]] std::string report_page(const PlayedRun& run, const std::vector<Figure>& figures);

}  // namespace taut::cli
