#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/time.hpp"
#include "proto/checkpoint.pb.h"
#include "server/coordinator/epoch_change.hpp"
#include "server/coordinator/job_record.hpp"

namespace taut {

/// What somebody with a file system has to do for a job's checkpoint.
struct CheckpointTask {
  enum class Kind : std::uint8_t {
    kFinish,  // its parts are written: put the manifest to them, and all of it in its place
    kDrop,    // it will not become whole: remove what was written of it
  };
  Kind kind = Kind::kFinish;
  JobId job;
  std::uint64_t number = 0;  // of the order
  std::string aside;         // the folder that the parts are in
  std::string folder;        // kFinish: where the checkpoint will stand
  pb::CheckpointManifest manifest;
  std::vector<std::string> older;  // kFinish: checkpoints that are then too many
};
using CheckpointTasks = std::vector<CheckpointTask>;

/// Whether a net carries state from batch to batch, which only its workers can save.
[[nodiscard]] bool carries_state(const pb::Job& definition);

/// Whether a member has a part in the checkpoint under way; one that is through with its training too.
[[nodiscard]] bool owes_checkpoint(const JobRecord& job, int member);

/// Gives a job that starts its first order, so that no clock can pass it.
void order_first_checkpoint(JobRecord& job, Notes& notes);

/// Carries a job's checkpoints on: one order at a time, at a clock ahead of everybody; when all parts
/// are written it is to be finished, when one came too late or failed it is dropped and the next one
/// ordered. Orders of a job that ends are dropped. Call it whenever anything may have changed.
/// limit  how long a job whose workers are through waits for its last checkpoint
void advance_checkpoint(JobRecord& job, Duration limit, TimePoint now, CheckpointTasks& tasks,
                        Notes& notes);

/// Orders one at a clock just ahead of everybody. Returns what to tell who asked.
/// REQUIRES: the job is running, and not closing.
std::string order_checkpoint_now(JobRecord& job, CheckpointTasks& tasks, Notes& notes);

/// Takes over what became of a kFinish task; an empty error: it is whole.
void note_finished(JobRecord& job, std::uint64_t number, const std::string& error,
                   CheckpointTasks& tasks, Notes& notes);

}  // namespace taut
