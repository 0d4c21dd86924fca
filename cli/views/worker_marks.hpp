#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace taut::cli {

/// What to look at in a running job's list of workers.
enum class WorkerMark : std::uint8_t { kNone, kLost, kStalled, kStraggler };

/// Lost; stalled: it has not been heard of for seconds; straggler: the one that others wait for.
[[nodiscard]] WorkerMark mark_of(const pb::JobStatus& job, const pb::WorkerStatus& worker);

/// Adds a sign and a word to each line that begins with the name of a marked worker; with colours,
/// the line has the mark's colour too.
void mark_workers(const pb::JobStatus& job, bool colours, std::vector<std::string>& lines);

/// Whether standard output shows colours: a terminal, and NO_COLOR is not set.
[[nodiscard]] bool shows_colours();

}  // namespace taut::cli
