#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"
#include "proto/checkpoint.pb.h"
#include "proto/control.pb.h"
#include "server/coordinator/epoch_change.hpp"
#include "server/coordinator/store/job_record.hpp"

namespace taut {

/// Parts of a checkpoint that a server removes.
struct PartRemoval {
  std::string server;
  std::string address;  // of its first shard
  std::string folder;   // as the job names it
  std::uint64_t order = 0;
  bool failed = false;  // the server did not answer
};

/// A complete checkpoint that is not kept any more.
struct UnkeptCheckpoint {
  std::string folder;
  std::uint64_t order = 0;  // its number; 0: not known
};

/// Work on the file system for a job's checkpoint.
struct CheckpointTask {
  enum class Kind : std::uint8_t {
    kFinish,       // its parts are written: add the manifest and move the folder to its final path
    kDrop,         // it will not be completed: remove the coordinator's folder of it, and what is
                   // left of earlier ones
    kRemove,       // complete checkpoints that are not kept any more: as kDrop
    kRemoveParts,  // parts on the servers' disks, of both
  };
  Kind kind = Kind::kFinish;
  JobId job;
  std::uint64_t number = 0;  // of the order
  std::string aside;         // the folder of the parts
  std::string folder;        // kFinish: the final path; once finished, the path that was free
  pb::CheckpointManifest manifest;
  std::vector<UnkeptCheckpoint> unkept;  // kRemove
  // kFinish of a coded one: the servers that may have parts. Other checkpoints are whole files.
  std::vector<pb::PartHolder> holders;
  std::string tried;            // kFinish, once tried: the final path, also where it has failed
  std::string manifest_sha256;  // kFinish of a coded one, once finished: of the manifest's file
  std::uint64_t token = 0;      // kDrop, kRemove, kRemoveParts: of the job's submission
  std::vector<PartRemoval> removals;  // kRemoveParts
};
using CheckpointTasks = std::vector<CheckpointTask>;

/// What the name of an unfinished checkpoint's folder has after the final one, before the number of
/// its order: jobs of several coordinators may have one number, and a folder for their checkpoints.
[[nodiscard]] std::string unfinished_mark(JobId job, std::uint64_t token);

/// The folder that a job's checkpoints are made in; relative: to the coordinator's working folder.
[[nodiscard]] std::filesystem::path checkpoint_folder(const pb::Job& definition);

/// Of so many parts on so many servers, the most servers that may be lost; 0: none may be.
[[nodiscard]] std::uint32_t losses_survived(const pb::CodedCheckpoints& coded,
                                            std::uint32_t servers);

/// Whether a member takes part in the current checkpoint, even if it has finished training.
[[nodiscard]] bool owes_checkpoint(const JobRecord& job, int member);

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
