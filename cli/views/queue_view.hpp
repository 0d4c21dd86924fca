#pragma once

#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace taut::cli {

/// The jobs that run and those that wait, in order: which job has which workers, and what the
/// others wait for. The first line counts the workers.
[[nodiscard]] std::vector<std::string> queue_lines(const pb::StatusReply& status);

}  // namespace taut::cli
