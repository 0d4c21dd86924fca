#pragma once

#include <filesystem>
#include <string_view>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut {

/// Checks fields of a job's text: `compression`, `tables`, `exchange`, `periodic_averaging` and
/// `balance`, and those that cannot be combined with the text's own net.
/// text  the text that the whole job was read from
/// name  denotes the text in messages, e.g. its path
/// Errors    invalid: "name:line:column: what"
[[nodiscard]] Result<void> check_places(const pb::Job& job, std::string_view text,
                                        const std::string& name);

/// Overload for the text in a file. Does not check what cannot be combined with a net: the net and
/// the solver may be in other files.
[[nodiscard]] Result<void> check_places(const pb::Job& job, const std::filesystem::path& file);

}  // namespace taut
