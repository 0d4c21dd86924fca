#pragma once

#include <string>

#include "common/result.hpp"
#include "proto/job.pb.h"

namespace taut::lab {

/// The bytes of each of a job's tables, as comment lines of a cluster file.
/// Errors    as JobAssets::open()
[[nodiscard]] Result<std::string> table_bytes_comment(const pb::Job& job);

}  // namespace taut::lab
