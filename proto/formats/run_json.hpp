#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/result.hpp"
#include "proto/control.pb.h"

namespace taut {

/// What run.json says of every run, from now on: its kind, its job's name, when and by which
/// command and build it began. A kind of run may add its own to it.
[[nodiscard]] nlohmann::ordered_json begin_run_json(const std::string& kind,
                                                    const std::string& job_name,
                                                    const pb::RunOrigin& origin);

/// What a summary says of a compression that was AUTO: the schemes, why, and what was predicted.
[[nodiscard]] nlohmann::ordered_json choice_json(const pb::CompressionChoice& choice);

/// Writes run.json into a run's folder; bytes that are no UTF-8 become U+FFFD.
/// Errors    io
[[nodiscard]] Result<void> write_run_json(const std::filesystem::path& folder,
                                          const nlohmann::ordered_json& about);

}  // namespace taut
