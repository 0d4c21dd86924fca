#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"
#include "server/coordinator/checkpoints/checkpoint_task.hpp"
#include "server/coordinator/runs/notes.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// What the name of an unfinished checkpoint's folder has after the final one, before the number of
/// its order: jobs of several coordinators may have one number, and a folder for their checkpoints.
[[nodiscard]] std::string unfinished_mark(JobId job, std::uint64_t token);

/// Gives a starting job its first order, so that no clock can pass it.
void order_first_checkpoint(JobRecord& job, Notes& notes);

/// Advances a job's checkpoints: one order at a time, ahead of every worker. When all parts
/// are written it must be finished; if one was too late or failed, it is dropped and the next one
/// ordered. Orders of an ending job are dropped. Older checkpoints are removed once a newer one has
/// proved good: every worker has trained with its parameters, and what was to be tested has been.
/// When a job has diverged, its checkpoints from that clock on are removed.
/// Call it whenever anything may have changed.
/// limit  how long a job whose workers have finished waits for its last checkpoint
void advance_checkpoint(JobRecord& job, Duration limit, TimePoint now, CheckpointTasks& tasks,
                        Notes& notes);

/// Orders one at a clock just ahead of every worker. Returns the answer for the user.
/// Errors    unavailable: none can be written now, and why
/// REQUIRES: the job is running, and not closing.
[[nodiscard]] Result<std::string> order_checkpoint_now(JobRecord& job, CheckpointTasks& tasks,
                                                       Notes& notes);

/// Has a job's last checkpoint written, after which it is to stop. Its workers begin no further
/// clock until all have said which ones they have begun; then they train up to the checkpoint's
/// clock, and no further. Programs that train by themselves are not held: theirs is at a clock just
/// ahead of every one, and what they train after it is lost. Returns what is done, for the log.
/// Errors    unavailable: none can be written, and why
/// REQUIRES: the job is running, and not closing.
[[nodiscard]] Result<std::string> order_last_checkpoint(JobRecord& job, CheckpointTasks& tasks,
                                                        Notes& notes);

/// Ends the current order; servers and workers learn of it with the next revision, and another one
/// follows. REQUIRES: there is one.
void withdraw_checkpoint(JobRecord& job, CheckpointTasks& tasks);

/// Adopts the result of a kFinish task, whose folder is where the checkpoint is now; an empty error
/// means success.
void note_finished(JobRecord& job, const CheckpointTask& task, const std::string& error,
                   CheckpointTasks& tasks, Notes& notes);

}  // namespace taut
