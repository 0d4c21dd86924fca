#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "proto/sweep.pb.h"

namespace taut::cli {

/// Values of the fields that a sweep varies, one for each, as a file has them.
using Setting = std::vector<std::string>;

/// What `--vary` has: "solver.base_lr=0.01,0.1", or the text of a SweepVary.
/// option    denotes the text in a message
/// Errors    invalid
[[nodiscard]] Result<pb::SweepVary> parse_vary(const std::string& text, const std::string& option);

/// The settings of a sweep: every combination, or as many as it draws. One without values if the
/// sweep varies nothing.
/// job       the whole job, of which the fields are
/// Errors    invalid: what cannot work, one a line
[[nodiscard]] Result<std::vector<Setting>> settings_of(const pb::Sweep& sweep, const pb::Job& job);

/// The fields' names for people: the last part of each path, or all of it where two end alike.
[[nodiscard]] std::vector<std::string> short_names(const pb::Sweep& sweep);

}  // namespace taut::cli
