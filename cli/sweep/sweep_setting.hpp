#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// Writes when and with which command line a sweep started: began.json in its folder, which later
/// commands do not change.
[[nodiscard]] Result<void> write_start_record(const std::filesystem::path& folder);

/// Date and command line of the sweep in a folder, as far as known.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> beginning_of(
    const std::filesystem::path& folder);

/// The batch of each training step in words, e.g. "64 of each worker"; empty if the net's input
/// does not define it.
[[nodiscard]] std::string batch_text(const pb::Job& job);

}  // namespace taut::cli
