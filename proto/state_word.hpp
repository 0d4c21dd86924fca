#pragma once

#include "proto/control.pb.h"

namespace taut {

/// A job's state as users read it: "submitted", "running", "done", "failed", "stopped".
[[nodiscard]] const char* state_word(pb::JobState state);
/// In lower case, as the status and the dashboard show it.
[[nodiscard]] const char* state_word(pb::ProcessState state);
/// Overloads for a whole process: "leaving" and "drained" if it is to end, "left" if it has.
[[nodiscard]] const char* state_word(const pb::ServerStatus& server);
[[nodiscard]] const char* state_word(const pb::WorkerStatus& worker);

}  // namespace taut
