#pragma once

#include <filesystem>
#include <string>

#include "cli/sweep/report/report.hpp"

namespace taut::cli {

/// A sweep's figures as one JSON object on a line, for tools. Missing values are null.
/// page      where the HTML report is
[[nodiscard]] std::string report_json(const SweepReport& report, const std::filesystem::path& page);

}  // namespace taut::cli
