#pragma once

#include <cstdint>
#include <string>

#include "common/time.hpp"
#include "server/coordinator/checkpoints/checkpoint_task.hpp"
#include "server/coordinator/registry.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// Lists a checkpoint's parts for removal on every server of the job that may have some, lost ones
/// too: a server that returns still has its disk. The list is in the job's record until each server
/// has removed its parts, so no restart forgets it. Does nothing if checkpoints are whole files.
/// folder  of the checkpoint, unfinished or complete
/// order   its number
void leave_parts(JobRecord& job, const std::string& folder, std::uint64_t order);

/// Issues the listed removals for connected servers: once in each life of a server, and again a
/// minute after a failure.
void remove_left_parts(JobRecord& job, const Registry& registry, TimePoint now,
                       CheckpointTasks& tasks);

/// Adopts the result of a kRemoveParts task. With an error, none of it was done.
void note_removed(JobRecord& job, const CheckpointTask& task, const std::string& error,
                  TimePoint now);

}  // namespace taut
