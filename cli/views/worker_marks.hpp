#pragma once

#include <cstdint>
#include <string>

#include "proto/control.pb.h"

namespace taut::cli {

/// What to look at in a running job's list of workers.
enum class WorkerMark : std::uint8_t { kNone, kLost, kStalled, kStraggler };

/// Lost; stalled: it has not been heard of for seconds; straggler: the one that others wait for.
[[nodiscard]] WorkerMark mark_of(const pb::JobStatus& job, const pb::WorkerStatus& worker);

/// The worker's state in a word; of a marked one with a sign before it: "! lost", "? stalled",
/// "< straggler".
[[nodiscard]] std::string state_of(const pb::JobStatus& job, const pb::WorkerStatus& worker);

/// The line in the mark's colour; unchanged without a mark.
[[nodiscard]] std::string coloured(WorkerMark mark, const std::string& line);

/// Whether standard output shows colours: a terminal, and NO_COLOR is not set.
[[nodiscard]] bool shows_colours();

}  // namespace taut::cli
