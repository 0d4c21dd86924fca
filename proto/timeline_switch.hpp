#pragma once

#include <string>

#include "proto/cluster.pb.h"

namespace taut {

/// Begins this process's timeline where its records' settings want it, or ends it; the log says
/// which. A folder that cannot be written is a warning: the process works on.
void switch_timeline(bool on, const pb::RecordsConfig& records, const std::string& process);

}  // namespace taut
