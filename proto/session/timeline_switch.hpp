#pragma once

#include <string>

#include "proto/cluster.pb.h"

namespace taut {

/// Starts this process's timeline if its record settings require it, or stops it; the log shows
/// which. A folder that cannot be written is a warning: the process continues.
void switch_timeline(bool on, const pb::RecordsConfig& records, const std::string& process);

}  // namespace taut
