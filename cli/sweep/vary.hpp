#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "proto/sweep.pb.h"

namespace taut::cli {

/// Values of the fields that a sweep varies, one for each, as in a file.
using Setting = std::vector<std::string>;

/// Parses a value of `--vary`: "solver.base_lr=0.01,0.1", or the text of a SweepVary.
/// option    names the text in an error
/// Errors    invalid
[[nodiscard]] Result<pb::SweepVary> parse_vary(const std::string& text, const std::string& option);

/// The settings of a sweep: every combination, or as many as it draws. A single one without values
/// if the sweep varies nothing.
/// job       the whole job with the fields
/// Errors    invalid: values that cannot work, one a line
[[nodiscard]] Result<std::vector<Setting>> settings_of(const pb::Sweep& sweep, const pb::Job& job);

/// The fields' names for display: the last part of each path, or all of it if two have the same
/// end.
[[nodiscard]] std::vector<std::string> short_names(const pb::Sweep& sweep);

}  // namespace taut::cli
