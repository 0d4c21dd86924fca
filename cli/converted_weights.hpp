#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "proto/job.pb.h"
#include "worker/model/graph.hpp"

namespace taut::cli {

/// Servers read initial values from the job's files as they are stored. If a PyTorch state_dict has
/// tensors that are not stored as our tables are, for example an LSTM's gates, this writes it once
/// more in our order, next to the original and so in a folder that servers may read, and makes the
/// job name the new file. Returns a line for each such file.
/// Errors   as open_weights() and write_tables()
[[nodiscard]] Result<std::vector<std::string>> convert_state_dicts(
    pb::Job& job, const model::GraphOptions& options);

}  // namespace taut::cli
