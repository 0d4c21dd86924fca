#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::cli {

/// Writes when and by which command line a sweep began: began.json in its folder, which a later
/// command leaves as it is.
[[nodiscard]] Result<void> write_beginning(const std::filesystem::path& folder);

/// Date and command line of the sweep in a folder, as far as they are known.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> beginning_of(
    const std::filesystem::path& folder);

/// The batch of each training step in words, e.g. "64 of each worker"; empty: the net's input says
/// nothing of it.
[[nodiscard]] std::string batch_text(const pb::Job& job);

}  // namespace taut::cli
