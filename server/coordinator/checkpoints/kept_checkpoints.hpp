#pragma once

#include "server/coordinator/checkpoints/checkpoint_task.hpp"
#include "server/coordinator/runs/notes.hpp"
#include "server/coordinator/store/job_record.hpp"

/// Which of a job's complete checkpoints are removed.
namespace taut {

/// Older ones than the job keeps, once a newer one has proved good: every worker has trained with
/// its parameters, and what was to be tested has been.
void remove_old(JobRecord& job, CheckpointTasks& tasks, Notes& notes);

/// Those from the clock on by which the training had diverged: the parameters of a clock whose loss
/// or test was not finite are finite, but a training that continues from them diverges again.
void remove_diverged(JobRecord& job, CheckpointTasks& tasks, Notes& notes);

}  // namespace taut
