#pragma once

#include <filesystem>
#include <string_view>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut {

/// Checks what a job's text says about single fields of it: `compression`, `tables`, `exchange`,
/// `periodic_averaging` and `balance`, and those that cannot be combined with the text's own net.
/// text  that the whole job was read from
/// name  of the text in messages, e.g. its path
/// Errors    invalid: "name:line:column: what"
[[nodiscard]] Result<void> check_places(const pb::Job& job, std::string_view text,
                                        const std::string& name);

/// Overload for the text in a file. What cannot be combined with a net is not checked: the net and
/// the solver may be in other files.
[[nodiscard]] Result<void> check_places(const pb::Job& job, const std::filesystem::path& file);

}  // namespace taut
