#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/result.hpp"
#include "proto/control.pb.h"

namespace taut {

/// What run.json states about every run: its kind, its job's name, and when and by which command
/// and build it began, which is now. A kind of run may add its own fields.
[[nodiscard]] nlohmann::ordered_json begin_run_json(const std::string& kind,
                                                    const std::string& job_name,
                                                    const pb::RunOrigin& origin);

/// What a summary states about a compression that was AUTO: the schemes, why, and what was
/// predicted.
[[nodiscard]] nlohmann::ordered_json choice_json(const pb::CompressionChoice& choice);

/// Writes run.json into a run's folder; bytes that are not UTF-8 become U+FFFD.
/// Errors    io
[[nodiscard]] Result<void> write_run_json(const std::filesystem::path& folder,
                                          const nlohmann::ordered_json& about);

}  // namespace taut
