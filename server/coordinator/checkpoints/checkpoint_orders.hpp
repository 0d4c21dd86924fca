#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"
#include "server/coordinator/checkpoints/checkpoint_task.hpp"
#include "server/coordinator/runs/notes.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// The part of an unfinished checkpoint's folder name between the final name and the number of its
/// order: jobs of several coordinators may share a number, and a folder for their checkpoints.
[[nodiscard]] std::string unfinished_mark(JobId job, std::uint64_t token);

/// Gives a starting job its first order, so that no clock can pass it.
void order_first_checkpoint(JobRecord& job, Notes& notes);

/// Advances a job's checkpoints: one order at a time, at a clock ahead of every worker. When all
/// parts are written, a task to finish it is issued; if one was too late or failed, the order is
/// dropped and the next one given. Orders of an ending job are dropped. Older checkpoints are
/// removed once a newer one has proved good: every worker has trained with its parameters, and due
/// tests have been made. When a job has diverged, its checkpoints from that clock on are removed.
/// Call it whenever anything may have changed.
/// limit  how long a job whose workers have finished waits for its last checkpoint
void advance_checkpoint(JobRecord& job, Duration limit, TimePoint now, CheckpointTasks& tasks,
                        Notes& notes);

/// Orders a checkpoint at a clock just ahead of every worker. Returns the answer for the user.
/// Errors    unavailable: none can be written now, and why
/// REQUIRES: the job is running, and not closing.
[[nodiscard]] Result<std::string> order_checkpoint_now(JobRecord& job, CheckpointTasks& tasks,
                                                       Notes& notes);

/// Has a job's last checkpoint written, after which the job must stop. Its workers begin no further
/// clock until all have reported which ones they have begun; then they train up to the checkpoint's
/// clock and stop there. External members are not held: their checkpoint is at a clock just ahead
/// of every one of them, and what they train after it is lost. Returns what is done, for the log.
/// Errors    unavailable: none can be written, and why
/// REQUIRES: the job is running, and not closing.
[[nodiscard]] Result<std::string> order_last_checkpoint(JobRecord& job, CheckpointTasks& tasks,
                                                        Notes& notes);

/// Ends the current order; servers and workers learn of it with the next revision, and another
/// order follows. REQUIRES: a checkpoint is ordered.
void withdraw_checkpoint(JobRecord& job, CheckpointTasks& tasks);

/// Adopts the result of a kFinish task, whose `folder` is the checkpoint's final path; an empty
/// error means success.
void note_finished(JobRecord& job, const CheckpointTask& task, const std::string& error,
                   CheckpointTasks& tasks, Notes& notes);

}  // namespace taut
