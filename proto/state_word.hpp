#pragma once

#include "proto/control.pb.h"

namespace taut {

/// A job's state as users read it: "submitted", "running", "done", "failed", "stopped".
[[nodiscard]] const char* state_word(pb::JobState state);

}  // namespace taut
