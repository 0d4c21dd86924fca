#pragma once

#include "server/coordinator/checkpoints/checkpoint_task.hpp"
#include "server/coordinator/runs/notes.hpp"
#include "server/coordinator/store/job_record.hpp"

/// The removal of a job's complete checkpoints.
namespace taut {

/// Removes older checkpoints than the job keeps, once a newer one has proved good: every worker has
/// trained with its parameters, and due tests have been made.
void remove_old(JobRecord& job, CheckpointTasks& tasks, Notes& notes);

/// Removes those from the clock on by which the training had diverged: although the loss or test at
/// that clock was not finite, its parameters are; training that continues from them diverges again.
void remove_diverged(JobRecord& job, CheckpointTasks& tasks, Notes& notes);

}  // namespace taut
