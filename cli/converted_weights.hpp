#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "worker/model/graph.hpp"

namespace taut::cli {

/// Servers read initial values from the job's files as they are stored. A state_dict of PyTorch's
/// whose tensors are not stored as our tables are, an LSTM's gates for example, is written once
/// more in our order, next to it and so in a folder that servers may read, and the job names that
/// file instead. Returns a line for each such file.
/// Errors   as open_weights and write_tables
[[nodiscard]] Result<std::vector<std::string>> convert_state_dicts(
    pb::Job& job, const model::GraphOptions& options);

}  // namespace taut::cli
