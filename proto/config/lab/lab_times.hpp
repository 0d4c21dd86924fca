#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace taut {

/// Reads measured clock times, in milliseconds: a number on each line, or the column compute_s of a
/// worker's metrics.csv without its lines about tests.
/// Errors    not_found; invalid: "name:line: what", of the first impossible value
[[nodiscard]] Result<std::vector<double>> read_compute_times(const std::filesystem::path& path);

/// Overload for a text of a given name.
[[nodiscard]] Result<std::vector<double>> parse_compute_times(std::string_view text,
                                                              const std::string& name);

}  // namespace taut
